"""How far a node is on its way in, in a few words."""

from typing import Any

import msgspec

from leasehold.cli.output import milliseconds
from leasehold.core.messages import NodeRecovery, NodeStatus
from leasehold.limits import SECOND_NS

_IN = frozenset({"MEMBER", "LEFT", ""})
"""Stages in which the way in is over, or nothing is told of it."""


def recovery_words(node: NodeStatus) -> str:
    """As `b: revision 1,200 of 5,000, 3 s left`; of a node that is in, what it still lacks, or nothing."""
    told, on_its_way = node.recovery, node.stage not in _IN
    if told is None:
        return node.stage.lower() if on_its_way else ""
    parts = [_progress(told)] if on_its_way else []
    if told.segments_missing:
        parts.append(f"{told.segments_missing:,} segments to fetch")
    if on_its_way and told.left_ns is not None:
        parts.append(f"{_rounded_up(told.left_ns)} s left")
    words = ", ".join(part for part in parts if part)
    if not words:
        return told.case if on_its_way else ""
    return f"{told.case}: {words}"


def recovery_json(told: NodeRecovery | None) -> dict[str, Any] | None:
    """The same for programs."""
    if told is None:
        return None
    fields = {name: value for name, value in msgspec.structs.asdict(told).items() if name != "left_ns"}
    return fields | {"left_ms": None if told.left_ns is None else milliseconds(told.left_ns)}


def _progress(told: NodeRecovery) -> str:
    if told.keys_total and told.keys < told.keys_total:
        return f"{told.keys:,} of {told.keys_total:,} keys"
    return f"revision {told.applied:,} of {told.target:,}" if told.applied < told.target else ""


def _rounded_up(duration_ns: int) -> int:
    return -(-duration_ns // SECOND_NS)
