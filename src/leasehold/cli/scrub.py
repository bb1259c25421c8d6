"""`leasehold scrub`: all nodes read their segment files whole, and replace damaged ones."""

from pathlib import Path
from typing import Any, Final

from leasehold.cli.interrupt import interrupted_by
from leasehold.cli.login import connected
from leasehold.cli.output import Output, ProgressLine, say, show_json, show_table
from leasehold.client.cluster import Cluster
from leasehold.client.scrub import ScrubbedNode
from leasehold.core.words.messages import ScrubbedTable
from leasehold.errors import ExitCode
from leasehold.limits.clients import PROGRESS_SHOWN_NS

COUNTS: Final = (
    "files",
    "size_bytes",
    "damaged",
    "healed",
    "unhealed",
    "unhealed_rows",
    "missing",
    "unknown",
    "unread",
)


def scrub(directory: Path, user: str | None, table: str | None, output: Output, timeout: str | None) -> ExitCode:
    """See `client/scrub.py`. The exit code: a node was not reached, else a file could not be healed, else done."""
    with (
        interrupted_by(lambda: None),
        connected(Cluster, directory, user, timeout=timeout) as cluster,
        ProgressLine(PROGRESS_SHOWN_NS) as line,
    ):

        def told(files: int, size_bytes: int, damaged: int) -> None:
            line.show(f"{files} files read, {size_bytes / 2**20:.0f} MiB, {damaged} damaged")

        nodes = cluster.scrub(table, told)
    if output is Output.JSON:
        show_json({"nodes": [_as_json(one) for one in nodes]})
    else:
        _show(nodes)
    if any(one.error is not None for one in nodes):
        return ExitCode.UNREACHABLE
    return ExitCode.DONE if all(one.is_whole for one in nodes) else ExitCode.CHECK_FAILED


def _as_json(node: ScrubbedNode) -> dict[str, Any]:
    tables = [
        {"table": _named(one), **{count: getattr(one, count) for count in COUNTS}}
        | {"unhealed_segments": list(one.unhealed_segments)}
        for one in node.tables
    ]
    return {"node": node.node, "name": node.name, "error": node.error, "tables": tables}


def _show(nodes: tuple[ScrubbedNode, ...]) -> None:
    rows = [
        (node.name, _named(one), *(getattr(one, count) for count in COUNTS)) for node in nodes for one in node.tables
    ]
    show_table(["node", "table", *COUNTS], rows)
    for node in nodes:
        for one in node.tables:
            if one.unhealed:
                more = "" if one.unhealed == len(one.unhealed_segments) else ", .."
                say(
                    f"{node.name}: {one.unhealed} damaged segments of {_named(one)} with {one.unhealed_rows} rows were"
                    f" not replaced: {', '.join(one.unhealed_segments)}{more}"
                )
        if node.error is not None:
            say(f"{node.name}: not scrubbed to the end: {node.error}")


def _named(found: ScrubbedTable) -> str:
    return found.name or f"(dropped table {found.table})"
