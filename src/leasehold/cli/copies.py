"""Segments with fewer copies than their tables want, in words."""

from leasehold.core.words.messages import ClusterStatus, NodeStatus


def segments(count: int) -> str:
    """As `1 segment`."""
    return f"{count} segment{'' if count == 1 else 's'}"


def copies_lines(status: ClusterStatus) -> list[str]:
    """What to tell a person about missing copies in a cluster; empty if there are enough."""
    if status.segments_short is None:
        return ["the coordinator still counts how many copies each segment has"]
    lines: list[str] = []
    lost = status.segments_lost or 0
    if status.segments_short > lost:
        alone = ", ".join(f"{one.name} alone holds {one.segments_alone}" for one in status.nodes if one.segments_alone)
        text = f"on fewer nodes than the table wants: {segments(status.segments_short - lost)}"
        lines.append(text + (f"; {alone}: losing that disk loses rows" if alone else ""))
    names = {one.id: one.name for one in status.nodes}
    lacked = {names.get(one.node, str(one.node)): one.segments for one in status.lacked}
    removed = lost - sum(lacked.values())
    if removed > 0:
        lines.append(f"lost: {segments(removed)}; no node holds them, and scans of their tables end with SEGMENTS_LOST")
    lines.extend(
        f"lost: {segments(count)} that only {name} should hold, and their files are missing or damaged; restore its"
        f" disk and start it again, or give them up with `leasehold node remove {name} --force`"
        for name, count in lacked.items()
    )
    return lines


def node_copies(node: NodeStatus) -> str:
    """The missing copies of the buckets of one node; empty if there are enough."""
    if node.segments_short is None:
        return "the coordinator still counts its segments"
    if not node.segments_short:
        return ""
    return f"{segments(node.segments_short)} of its buckets on fewer nodes than the table wants"
