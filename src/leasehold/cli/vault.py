"""`leasehold vault`: what a node's vault holds, and whether it is damaged. It changes nothing."""

from pathlib import Path
from typing import Any

import typer

from leasehold.cli.options import NodeDir, Out
from leasehold.cli.output import Output, say, show_json, show_table
from leasehold.error_codes import ErrorCode
from leasehold.errors import CheckFailed, typed

vault = typer.Typer(no_args_is_help=True, help="Inspect the vault of a node that does not run.")


@vault.command()
def show(directory: NodeDir, output: Out = Output.TABLE) -> None:
    """Show the node of a vault, its revision, and how many keys of each kind it holds."""
    from leasehold.vault.inspect import inspect

    found = inspect(directory)
    told: dict[str, Any] = {
        "path": str(found.path),
        "format": found.format_version,
        "size_bytes": found.size_bytes,
        "state": found.state,
        "node": found.node,
        "cluster_id": found.cluster_id,
        "incarnation": found.incarnation,
        "token_sha256": found.token_sha256,
        "applied_revision": found.applied,
        "durable_revision": found.durable,
        "history_hash": found.lineage.hex(),
        "coordinators": list(found.coordinators),
        "keys": sum(one.keys for one in found.families),
    }
    if output is Output.JSON:
        families = [{"prefix": one.prefix, "keys": one.keys, "size_bytes": one.size_bytes} for one in found.families]
        show_json(told | {"families": families})
        return
    told["coordinators"] = ", ".join(found.coordinators) or None
    for name, value in told.items():
        say(f"{name.replace('_', ' '):17} {'none' if value is None else value}")
    show_table(["keys under", "keys", "bytes"], [(one.prefix, one.keys, one.size_bytes) for one in found.families])


@vault.command()
def check(directory: NodeDir, output: Out = Output.TABLE) -> None:
    """Check each item of a vault, and the whole vault, against their checksums; exit 1 if something is damaged."""
    from leasehold.vault.inspect import examine

    checked = examine(directory)
    if output is Output.JSON:
        show_json({"findings": list(checked.findings), "revision": checked.revision, "log": checked.log})
    else:
        for one in checked.findings:
            say(one)
        if checked.log is not None:
            say(f"{checked.log}: it ends as after a crash or damage; the last writes may be lost")
        if not checked.findings:
            say(f"the vault is whole, at revision {checked.revision}")
    if checked.findings:
        raise damaged(directory)


def damaged(directory: Path) -> CheckFailed:
    """The error for a damaged vault."""
    return CheckFailed(
        f"the vault in {directory} is damaged",
        code=ErrorCode.CORRUPT,
        hint=f"restore the directory, or start over with `leasehold node reset --dir {typed(directory)}`",
    )
