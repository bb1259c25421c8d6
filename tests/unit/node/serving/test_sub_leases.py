"""How long a local open lasts: its reader renews it, and removes its links before its lease ends (INV-OPEN-1)."""

from collections.abc import Callable
from typing import Any

import pytest

from leasehold.client import local_opens
from leasehold.client.threads import THREADS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.clock import sleep_ns
from tests.unit.node.cluster import Cluster
from tests.unit.node.serving.opening import MS, ended, left_over, lend, opened, pair, paths

__all__ = ["pair"]


def test_a_reader_removes_the_links_before_the_lease_ends_that_nobody_renews(pair: Cluster) -> None:
    lend(pair, SECOND_NS)
    open_ = opened(pair)
    deadline_ns = max(node.published.lease.deadline_ns for node in pair.nodes)
    assert len(paths(open_)) == 2
    assert ended(open_) in {"FENCED", "LOCAL_ENDED", "TIMED_OUT"}, "the node says so, or is too busy to say anything"
    while left_over(pair):
        sleep_ns(1 * MS)
    assert THREADS.now_ns() < deadline_ns


def test_a_reader_keeps_an_open_by_renewing_it(pair: Cluster) -> None:
    lend(pair, SECOND_NS)
    open_ = opened(pair)
    first_ns = max(node.published.lease.deadline_ns for node in pair.nodes)
    while THREADS.now_ns() < first_ns:
        lend(pair, SECOND_NS)
        assert open_.ended is None
        sleep_ns(20 * MS)
    assert len(paths(open_)) == 2
    open_.close()


def test_an_open_may_take_longer_than_a_lease(pair: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node holds large files against their hash first."""
    whole, sent = local_opens.sent_and_answer, []

    async def long_ago(call: Any, now_ns: Callable[[], int]) -> tuple[int, Any]:
        sent_ns, answer = await whole(call, now_ns)
        sent.append(sent_ns)
        return sent_ns - (30 * SECOND_NS if len(sent) == 1 else 0), answer

    lend(pair, 20 * SECOND_NS)
    monkeypatch.setattr(local_opens, "sent_and_answer", long_ago)
    open_ = opened(pair)
    assert len(sent) >= 2
    assert len(paths(open_)) == 2
    assert open_.check() is None
    open_.close()


def test_a_node_sweeps_what_its_reader_has_left(pair: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    lend(pair, SECOND_NS)
    open_ = opened(pair)
    monkeypatch.setattr(local_opens._keeper, "_parts", {})  # as if its process had been killed
    found = paths(open_)
    for node in pair.nodes:
        assert node.flight is not None
        swept = node.flight._local.sweep()
        with pytest.raises(StopIteration):
            swept.__await__().send(None)
    assert all(path.exists() for path in found), "not before it has ended"
    lend(pair, -1)
    for node in pair.nodes:
        node.fence_after = 0
        assert node.flight is not None
        with pytest.raises(StopIteration):
            node.flight._local.sweep().__await__().send(None)
    assert left_over(pair) == []
