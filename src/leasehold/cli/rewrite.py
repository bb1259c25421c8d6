"""`leasehold rewrite`: takes deleted and expired rows out of a table's files, and tells how far it is."""

from pathlib import Path

from leasehold.cli.login import connected
from leasehold.cli.output import note
from leasehold.client.rewrite import Rewritten


def rewrite(directory: Path, user: str | None, table: str) -> Rewritten:
    """See `client/rewrite.py`."""

    def told(done: Rewritten) -> None:
        note(f"{done.segments_replaced} segments replaced, {done.rows_removed} rows taken out")

    with connected(directory, user) as cluster:
        return cluster.rewrite(table, told)
