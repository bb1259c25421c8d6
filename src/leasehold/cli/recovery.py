"""The progress of a node's recovery, in a few words or in full."""

from typing import Any

import msgspec

from leasehold.cli.output import milliseconds
from leasehold.core.questions.nodes import MEMBERS
from leasehold.core.recovery.progress import in_words, left_in_words, segments_in_words
from leasehold.core.words.messages import NodeRecovery, NodeStatus

_IN = MEMBERS | {"LEFT", ""}
"""Stages after the recovery, or without news of one."""


def recovery_words(node: NodeStatus) -> str:
    """As `b: revision 1,200 of 5,000, about 3 s left`; after the recovery only the segments that the node lacks."""
    told = _told(node)
    if told is None:
        return _stage(node)
    if not told.case:
        return in_words(told)
    parts = (_progress(told) if _is_on_its_way(node) else "", segments_in_words(told), left_in_words(told))
    words = ", ".join(part for part in parts if part)
    return f"{told.case}: {words}" if words else told.case


def recovery_line(node: NodeStatus) -> str:
    """The whole progress, and why the node is in its case."""
    told = _told(node)
    return _stage(node) if told is None else in_words(told)


def recovery_json(told: NodeRecovery | None) -> dict[str, Any] | None:
    """The whole progress for programs."""
    if told is None:
        return None
    fields = {name: value for name, value in msgspec.structs.asdict(told).items() if name != "left_ns"}
    return fields | {"left_ms": None if told.left_ns is None else milliseconds(told.left_ns)}


def _is_on_its_way(node: NodeStatus) -> bool:
    return node.stage not in _IN


def _stage(node: NodeStatus) -> str:
    return node.stage.lower() if _is_on_its_way(node) and node.recovery is None else ""


def _told(node: NodeStatus) -> NodeRecovery | None:
    """The progress of a recovery that people wait for; None after it, and for a process that is gone."""
    told = node.recovery
    if told is None or (node.state == "DOWN" and told.case):
        return None
    return told if _is_on_its_way(node) or told.segments_missing else None


def _progress(told: NodeRecovery) -> str:
    if told.keys_total and told.keys < told.keys_total:
        return f"{told.keys:,} of {told.keys_total:,} keys"
    return f"revision {told.applied:,} of {told.target:,}" if told.applied < told.target else ""
