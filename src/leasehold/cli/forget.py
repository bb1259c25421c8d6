"""`leasehold forget-lost`: gives up the rows of a table that no node holds any more."""

import sys
from pathlib import Path

import msgspec

from leasehold.cli.copies import segments
from leasehold.cli.login import connected
from leasehold.cli.output import Output, confirmed, say, show_json
from leasehold.client.coordinators import Coordinators
from leasehold.client.lost import Forgotten, forget_lost
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, Refused


def forget(directory: Path, user: str | None, table: str, *, yes: bool, output: Output, timeout: str | None) -> None:
    """Says how much is lost and asks, unless `yes`. Raises NEEDS_YES, NOT_CONFIRMED, and what the leader says."""

    def confirm(found: Forgotten) -> None:
        told = f"{segments(found.segments)} of {table} with {found.rows} rows are on no node"
        if yes:
            return
        if not sys.stdin.isatty():
            text = f"{told}: giving them up needs a confirmation"
            raise BadSettings(text, code=ErrorCode.NEEDS_YES, hint="run it with --yes, or on a terminal")
        if not confirmed(f"{told}; give them up forever?"):
            raise Refused("nothing was given up", code=ErrorCode.NOT_CONFIRMED, hint="answer y to go on")

    with connected(Coordinators, directory, user, timeout=timeout) as cluster:
        done = forget_lost(cluster, table, confirm)
    if output is Output.JSON:
        show_json({"table": table, **msgspec.structs.asdict(done)})
    elif not done.segments:
        say(f"nothing of {table} is lost")
    else:
        say(f"{segments(done.segments)} of {table} with {done.rows} rows given up at revision {done.revision}")
