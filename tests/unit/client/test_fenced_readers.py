"""Readers that meet fenced nodes, over real sockets: elsewhere at once, and every row once."""

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from leasehold.client import replicas
from leasehold.errors import Fenced
from leasehold.limits.clients import PLACE_REST_MIN_NS
from leasehold.wire import flight
from tests.unit.client.fenced_words import (
    SEGMENTS,
    append,
    filled_pair,
    first_of,
    never,
    numbers,
    places_in,
    read,
    read_one,
)
from tests.unit.client.pace import paced
from tests.unit.node.cluster import Cluster, cluster, no_lease, rows


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    with filled_pair(tmp_path) as made:
        yield made


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("streams", [1, 4])
def test_a_fenced_replica_is_left_at_once_and_asked_by_no_other_segment(
    pair: Cluster, number: int, streams: int
) -> None:
    node = pair.node(number)
    node.fence()
    assert numbers(read(pair.plan(), streams=streams, runtime=paced(never))) == list(range(2000 * SEGMENTS))
    # Each refusal looks twice at the clock: once for the guard, once to say since when.
    assert node.readings <= 2 * streams, "every stream may meet it once, before the first one's news"


@pytest.mark.parametrize("how", ["expired", "surrendered"])
def test_a_scan_whose_node_is_fenced_in_the_middle_goes_on_elsewhere(pair: Cluster, how: str) -> None:
    node, plan = pair.node(first_of(pair)), pair.plan()
    segment = plan.segments[0]
    whole = [value for batch in read_one(plan, segment, runtime=paced(never)) for value in batch["k"].to_pylist()]
    # One look at the clock admits the scan, then one for each batch: the second batch meets the fence.
    if how == "surrendered":
        node.at_reading(3, lambda: no_lease(node))
    else:
        node.fence_at_reading(3)
    other = pair.node(3 - node.id)
    before = other.readings
    found = [batch["k"].to_pylist() for batch in read_one(plan, segment, runtime=paced(never))]
    assert [value for one in found for value in one] == whole
    assert [len(one) for one in found] == [1000, 1000]
    assert other.readings == before + 2, "it admitted the rest of the scan, and released one batch"


def test_a_node_that_serves_again_is_asked_again(pair: Cluster) -> None:
    now = [0]
    places = places_in(pair.facts(), runtime=paced(never, lambda: now[0]))
    node, plan = pair.node(first_of(pair)), pair.plan()
    node.fence()
    list(read_one(plan, plan.segments[0], places=places, runtime=paced(never)))
    node.grant()
    met = node.readings
    list(read_one(plan, plan.segments[0], places=places, runtime=paced(never)))
    assert node.readings == met, "it rests"
    now[0] += PLACE_REST_MIN_NS
    list(read_one(plan, plan.segments[0], places=places, runtime=paced(never)))
    assert node.readings > met


def test_when_all_rest_they_are_asked_all_the_same(pair: Cluster) -> None:
    """A rest only says who comes last: a fence that has just ended costs nobody a second."""
    places = places_in(pair.facts())
    for node in pair.nodes:
        places.failed(node.id, Fenced("fenced"))
    plan = pair.plan()
    assert numbers(read_one(plan, plan.segments[0], places=places, runtime=paced(never)))


def test_where_all_are_fenced_a_reader_asks_where_else(tmp_path: Path) -> None:
    """The replica that the plan did not know yet: the coordinator names it, and it serves."""
    with cluster(tmp_path, nodes=3) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"), replication=3)
        append(made, rows(0, 2500))
        plan = made.plan()
        known = plan.facts.places[:2]
        holders = plan.segments[0].holders[:2]
        old = msgspec.structs.replace(
            plan,
            facts=msgspec.structs.replace(plan.facts, places=known),
            segments=(msgspec.structs.replace(plan.segments[0], holders=holders),),
        )
        for node in (1, 2):
            made.node(node).fence()
        pauses: list[int] = []
        found = read(old, runtime=paced(pauses.append), refresh=made.facts)
        assert numbers(found) == list(range(2500))
        assert len(pauses) == 1


def test_rounds_over_fenced_replicas_do_not_lengthen_the_timeout_of_a_silent_one(
    pair: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many rounds end with FENCED; then one replica hangs: it costs one short timeout, not the longest one."""
    timeouts: list[int] = []
    monkeypatch.setattr(
        replicas, "within", lambda duration_ns, _: timeouts.append(duration_ns) or flight.within(duration_ns)
    )
    released = threading.Event()
    first, other = pair.node(first_of(pair)), pair.node(3 - first_of(pair))
    for node in (first, other):
        node.fence()
    rounds: list[int] = []

    def sleep(_duration_ns: int) -> None:
        rounds.append(1)
        if len(rounds) == 20:
            for node in (first, other):
                node.grant()
            first.at_reading(1, lambda: released.wait(20))

    plan = pair.plan()
    try:
        found = read_one(plan, plan.segments[0], runtime=paced(sleep), batch_timeout_ns=300_000_000)
        assert len(numbers(found)) == 2000
    finally:
        released.set()
    assert len(rounds) == 20
    assert len(timeouts) > 40
    assert set(timeouts) == {300_000_000}
