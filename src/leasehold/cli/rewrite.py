"""`leasehold rewrite`: takes deleted and expired rows out of a table's files, joins small ones, tells how far it is."""

from pathlib import Path

import msgspec

from leasehold.cli.interrupt import interrupted_by
from leasehold.cli.login import connected
from leasehold.cli.output import Output, note, say, show_json
from leasehold.client.cluster import Cluster
from leasehold.client.rewrite import Rewritten
from leasehold.errors import LeaseholdError, OutcomeUnknown


def rewrite(directory: Path, user: str | None, table: str, output: Output, timeout: str | None) -> None:
    """See `client/rewrite.py`."""

    def told(done: Rewritten) -> None:
        note(f"{done.segments_replaced} segments replaced, {done.rows_removed} rows taken out")

    with interrupted_by(_interrupted), connected(Cluster, directory, user, timeout=timeout) as cluster:
        done = cluster.rewrite(table, told)
    if output is Output.JSON:
        show_json(msgspec.structs.asdict(done))
        return
    say(f"{done.rows_removed} rows taken out, {done.rows_kept} kept")
    say(f"{done.segments_replaced} segments replaced by {done.segments_written}")


def _interrupted() -> LeaseholdError:
    return OutcomeUnknown("interrupted: a part of the files may be rewritten", hint="run it again")
