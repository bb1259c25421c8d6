"""`leasehold compact`: removes deleted and expired rows from a table's files, and joins small files."""

from pathlib import Path

import msgspec

from leasehold.cli.interrupt import interrupted_by
from leasehold.cli.login import connected
from leasehold.cli.output import Output, note, show_answer
from leasehold.client.cluster import Cluster
from leasehold.client.compaction import Compaction
from leasehold.errors import LeaseholdError, OutcomeUnknown


def compact(directory: Path, user: str | None, table: str, output: Output, timeout: str | None) -> None:
    """See `client/compaction.py`."""

    def told(done: Compaction) -> None:
        note(f"{done.segments_replaced} segments replaced, {done.rows_removed} rows taken out")

    with interrupted_by(_interrupted), connected(Cluster, directory, user, timeout=timeout) as cluster:
        done = cluster.compact(table, told)
    show_answer(
        output,
        msgspec.structs.asdict(done),
        f"{done.rows_removed} rows taken out, {done.rows_kept} kept",
        f"{done.segments_replaced} segments replaced by {done.segments_written}",
    )


def _interrupted() -> LeaseholdError:
    return OutcomeUnknown("interrupted: a part of the files may be rewritten", hint="run it again")
