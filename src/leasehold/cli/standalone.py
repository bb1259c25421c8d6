"""`leasehold node start --standalone`: shows, checks, exports from or repairs a node's directory; serves nothing."""

import asyncio
from pathlib import Path

import msgspec

from leasehold.cli.output import Output, ProgressLine, note, say, show_json, show_table
from leasehold.cli.vault import damaged
from leasehold.errors import BadSettings, CheckFailed, typed
from leasehold.ids import SegmentId
from leasehold.limits.node_disk import CHECK_PROGRESS_NS
from leasehold.node.directory.export import export_segment
from leasehold.node.directory.reset import check_no_reset, check_node_directory, check_vault_or_new
from leasehold.node.directory.standalone import CheckProgress, Mended, Some, Standalone, Summary
from leasehold.vault.inspect import examine

MEBIBYTE = 1024 * 1024


class StandaloneOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with the directory; by default it is shown."""

    check: bool
    repair: bool
    export: str | None
    to: Path | None

    def validate(self) -> None:
        """Raises `BadSettings` for options that exclude each other."""
        if self.check + self.repair + (self.export is not None) > 1:
            hint = "give one of --check, --repair and --export"
            raise BadSettings("only one of --check, --repair and --export is allowed", hint=hint)
        if (self.export is None) is not (self.to is None):
            raise BadSettings("an export needs both", hint="give --export SEGMENT and --to FILE")


def run_standalone(directory: Path, asked: StandaloneOptions, output: Output) -> None:
    """Raises `CheckFailed` if a check finds something, or a repair leaves something."""
    asked.validate()
    if asked.check:
        _check_vault(directory, output)
    standalone = asyncio.run(Standalone.open(directory))
    # Outside of the event loop, which would hold Ctrl-C back until all segments are read.
    try:
        if asked.check:
            _check(standalone, output)
        elif asked.repair:
            _repair(standalone, output)
        elif asked.export is not None and asked.to is not None:
            _export(standalone, SegmentId(asked.export), asked.to, output)
        else:
            _show(standalone.summary(), output)
    finally:
        asyncio.run(standalone.close())


# ---------------------------------------------------------------- showing


def _show(summary: Summary, output: Output) -> None:
    if output is Output.JSON:
        show_json(msgspec.to_builtins(summary))
        return
    say(_who(summary))
    say(f"applied revision {summary.applied}; coordinators known: {', '.join(summary.coordinators) or 'none'}")
    show_table(
        ["table", "name", "buckets", "segments", "MiB", "missing", "superfluous"],
        [
            (
                table.id,
                table.name,
                table.buckets,
                table.segments,
                f"{table.size_bytes / MEBIBYTE:.1f}",
                table.missing,
                table.superfluous,
            )
            for table in summary.tables
        ],
    )
    _list("missing, though the cluster expects them here", summary.missing)
    _list("not here yet", summary.awaited)
    _list("superfluous: the node deletes them when it runs", summary.superfluous)


def _who(summary: Summary) -> str:
    if not summary.node:
        return "a node without an id: it has not joined yet"
    named = f"node {summary.node}" + (f", {summary.name}" if summary.name else "")
    last = "; its last start was interrupted while it joined" if summary.joining else ""
    return f"{named}, of cluster {summary.cluster_id}, incarnation {summary.incarnation}{last}"


def _list(what: str, some: Some) -> None:
    if some.count:
        say(f"{some.count} segments {what}:")
        for segment in some.first:
            say(f"  {segment}")
        if some.count > len(some.first):
            say("  ..")


# ---------------------------------------------------------------- checking and repairing


def _how_far(check: CheckProgress) -> str:
    return (
        f"checked {check.segments:,} of {check.segments_total:,} segments,"
        f" {check.size_bytes / MEBIBYTE:,.0f} of {check.bytes_total / MEBIBYTE:,.0f} MiB"
    )


def _check_vault(directory: Path, output: Output) -> None:
    """Only a whole vault says what the segments should be. Raises `CheckFailed`."""
    check_node_directory(directory)
    check_no_reset(directory)
    check_vault_or_new(directory)
    findings = examine(directory).findings
    if not findings:
        return
    if output is Output.JSON:
        show_json({"vault": findings, "segments": 0, "size_bytes": 0, "wrong": 0, "findings": []})
    else:
        for one in findings:
            say(one)
    raise damaged(directory)


def _check(standalone: Standalone, output: Output) -> None:
    note(f"the vault is whole, at revision {standalone.catalog.revision}; reading the segments")
    with ProgressLine(CHECK_PROGRESS_NS) as line:
        checked = standalone.check(lambda check: line.show(_how_far(check)))
    if output is Output.JSON:
        show_json({"vault": []} | msgspec.to_builtins(checked))
    else:
        say(f"{checked.segments} segment files read, {checked.size_bytes / MEBIBYTE:.1f} MiB: {checked.wrong} wrong")
        for one in checked.findings:
            say(f"{one.what}: {one.segment} of {one.table or 'a dropped table'}: {one.text}")
        if checked.wrong > len(checked.findings):
            say("..")
    if checked.wrong:
        raise CheckFailed(
            f"{checked.wrong} segments are damaged, unreadable or missing in {standalone.directory}",
            hint=f"`leasehold node start --standalone --repair --dir {typed(standalone.directory)}` moves"
            " damaged segments aside; check the permissions and the disk for unreadable ones; the next start fetches"
            " the missing ones",
        )


def _repair(standalone: Standalone, output: Output) -> None:
    with ProgressLine(CHECK_PROGRESS_NS) as line:
        repaired = standalone.repair(lambda check: line.show(_how_far(check)))
    left = [one for one in repaired.segments if not one.moved]
    moved = len(repaired.segments) - len(left)
    if output is Output.JSON:
        to = None if repaired.folder is None else str(repaired.folder)
        segments = msgspec.to_builtins(repaired.segments)
        show_json({"moved": moved, "to": to, "left": len(left), "segments": segments})
    else:
        for one in repaired.segments:
            segment = f"{one.finding.segment} of {one.finding.table or 'a dropped table'}"
            say(f"moved: {segment}" if one.moved else f"left: {segment}: {one.why}")
        if not repaired.segments:
            say("nothing is damaged")
    if repaired.folder is not None:
        note(
            f"moved {moved} to {repaired.folder}: the next start fetches them from other nodes;"
            " delete that folder when the node serves again and nothing is missing"
        )
    if left:
        raise _left(left)


def _left(left: list[Mended]) -> CheckFailed:
    unreadable = [one.finding for one in left if one.finding.what == "unreadable"]
    if unreadable:
        return CheckFailed(
            f"{len(left)} segments stay in place; {len(unreadable)} can't be read: {unreadable[0].text}",
            hint="check the permissions of these files, the limit of open files and the disk, then repair again",
        )
    return CheckFailed(
        f"{len(left)} damaged segments stay in place",
        hint="restore their files from a backup of this directory; until then reads of them fail",
    )


def _export(standalone: Standalone, segment: SegmentId, target: Path, output: Output) -> None:
    done = export_segment(standalone, segment, target)
    if output is Output.JSON:
        show_json(
            {
                "table": done.table,
                "segment": done.segment,
                "file": str(target),
                "columns": list(done.columns),
                "rows": done.rows,
                "hidden_rows": done.hidden,
                "size_bytes": done.size_bytes,
                "sha256": done.sha256.hex(),
            }
        )
        return
    say(f"{done.rows} rows of {done.table} in {target}, {done.size_bytes / MEBIBYTE:.1f} MiB")
    if done.hidden:
        note(f"{done.hidden} of these rows are deleted or expired; no scan shows them")
