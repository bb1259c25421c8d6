"""`leasehold forget-lost`: gives up the rows of a table that no node holds any more."""

from pathlib import Path

import msgspec

from leasehold.cli.copies import segments
from leasehold.cli.login import connected
from leasehold.cli.output import Output, confirm, show_answer
from leasehold.client.coordinators import Coordinators
from leasehold.client.lost import Forgotten, forget_lost


def forget(directory: Path, user: str | None, table: str, *, yes: bool, output: Output, timeout: str | None) -> None:
    """Says how much is lost and asks, unless `yes`. Raises what `confirm` raises, and the leader's errors."""

    def ask(found: Forgotten) -> None:
        told = f"{segments(found.segments)} of {table} with {found.rows} rows are on no node"
        if not yes:
            why = f"{told}: giving them up needs a confirmation"
            confirm(f"{told}; give them up forever?", why=why, otherwise="nothing was given up")

    with connected(Coordinators, directory, user, timeout=timeout) as cluster:
        done = forget_lost(cluster, table, ask)
    text = f"{segments(done.segments)} of {table} with {done.rows} rows given up at revision {done.revision}"
    value = {"table": table, **msgspec.structs.asdict(done)}
    show_answer(output, value, text if done.segments else f"nothing of {table} is lost")
