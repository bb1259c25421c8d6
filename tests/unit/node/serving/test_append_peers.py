"""Which peers a write waits for: those that are behind, slow, silent or full."""

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.data import appends
from leasehold.core.data import forwarding as steps
from leasehold.core.data.forwarding import ForwardLimits
from leasehold.core.data.peers import Peers
from leasehold.core.data.write_access import Peer, admit_forward
from leasehold.core.words import keys
from leasehold.core.words.messages import ForwardTicket, Message, RowsEnd, StagedSegment
from leasehold.ids import NodeId
from leasehold.limits.units import SECOND_NS
from leasehold.node.serving import peers as forwarding
from leasehold.node.serving.peers import FlightPeers
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.flight import ask_health, expect
from leasehold.wire.steps import ThreadRuntime, run
from leasehold.wire.tls import Tls
from tests.unit.node.cluster import Cluster, cluster, rows
from tests.unit.node.serving.stream_words import ROWS_SCHEMA, Stream, write_ticket


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        yield made


def append_through_node_1(made: Cluster) -> list[NodeId]:
    """The holders of a segment of three rows."""
    answer = Stream(made, 1, write_ticket(made), ROWS_SCHEMA).send(rows(0, 3)).end(RowsEnd(rows=3))
    return [one.node for one in expect(StagedSegment, answer).holders]


def test_a_peer_that_does_not_show_the_revision_is_left_out_and_asked_again_by_later_writes(pair: Cluster) -> None:
    """It waits for a revision that it can't hear of, while its process answers."""
    behind = pair.nodes.pop()
    try:
        assert append_through_node_1(pair) == [1]
    finally:
        pair.nodes.append(behind)
    pair.show()
    for _ in range(100):
        if append_through_node_1(pair) == [1, 2]:
            return
    raise AssertionError("a peer that answers gets no writes")


def block_peer(patch: pytest.MonkeyPatch, step: int, released: threading.Event) -> None:
    """Stops the thread of a forwarded write: at step 1 before it takes the file, at step 2 before it finishes it."""
    steps = itertools.count(1)

    def admit(ticket: ForwardTicket, view: Catalog, node: NodeId) -> int:
        if next(steps) == step:
            released.wait(20)
        return admit_forward(ticket, view, node)

    patch.setattr(appends, "admit_forward", admit)


def release_at_second_probe(
    patch: pytest.MonkeyPatch, released: threading.Event, answer: Callable[[str, int, Message], bytes | None]
) -> list[str]:
    """Answers probes so, and lets the peer go on at the second one; whom they asked."""
    asked: list[str] = []

    def ask(address: str, timeout_ns: int, caller: Message, _tls: Tls | None, _name: str) -> bytes | None:
        asked.append(address)
        if len(asked) == 2:
            released.set()
        return answer(address, timeout_ns, caller)

    patch.setattr(forwarding, "ask_health", ask)
    return asked


def heard_of_taking(patch: pytest.MonkeyPatch) -> threading.Event:
    """Whether a writer has heard that its peer takes the file, which a busy machine may say late."""
    heard = threading.Event()
    taken = forwarding._Stream.is_admitted

    async def is_admitted(stream: forwarding._Stream) -> bool:
        is_taken = await taken(stream)
        heard.set()
        return is_taken

    patch.setattr(forwarding._Stream, "is_admitted", is_admitted)
    return heard


@pytest.mark.parametrize("step", [1, 2])
def test_a_peer_that_is_slow_is_waited_for_while_its_process_says_that_it_can_take_the_file(
    pair: Cluster, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    block_peer(monkeypatch, step, released)
    asked = release_at_second_probe(monkeypatch, released, ask_health)
    monkeypatch.setattr(steps, "patience_ns", lambda _own_ns: SECOND_NS)
    assert append_through_node_1(pair) == [1, 2]
    assert set(asked) == {pair.catalog.nodes[NodeId(2)].address}


@pytest.mark.parametrize(("step", "holders"), [(1, [1]), (2, [1, 2])])
@pytest.mark.parametrize("said", [b"", b'{"t":"node-status/2"}'])
def test_a_peer_that_does_not_say_how_it_stands_is_waited_for_once_it_has_taken_the_file(
    pair: Cluster, said: bytes, step: int, holders: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses the probe, or its version is another one."""
    released = threading.Event()
    block_peer(monkeypatch, step, released)
    release_at_second_probe(monkeypatch, released, lambda *_: said)
    heard = heard_of_taking(monkeypatch) if step > 1 else None
    monkeypatch.setattr(steps, "patience_ns", lambda _own_ns: SECOND_NS if heard is None or heard.wait(20) else 0)
    try:
        assert append_through_node_1(pair) == holders
    finally:
        released.set()


def test_a_peer_that_min_in_sync_needs_is_waited_for_though_it_is_silent(pair: Cluster) -> None:
    assert pair.catalog.settings is not None
    pair.change([put(keys.SETTINGS, msgspec.structs.replace(pair.catalog.settings, min_in_sync=2))])
    released = threading.Event()
    pair.node(2).at_reading(1, lambda: released.wait(0.7))
    assert append_through_node_1(pair) == [1, 2]


class Probed(FlightPeers):
    """Peers whose processes answer as `probe` says."""

    def __init__(self, probe: Callable[[str], bool]) -> None:
        self._probe = probe

    async def is_answering(self, peer: Peer, timeout_ns: int) -> bool:
        return self._probe(peer.address)


def known_peers(probe: Callable[[str], bool], **limits: int) -> Peers:
    return Peers(ThreadRuntime(BoottimeClock().now_ns), Probed(probe), **limits)


def test_a_silent_peer_gets_nothing_until_it_answers() -> None:
    answering: set[str] = set()
    probes: list[str] = []
    probed = threading.Semaphore(0)

    def probe(address: str) -> bool:
        probes.append(address)
        probed.release()
        return address in answering

    one, other = Peer(NodeId(1), "a:1", "a"), Peer(NodeId(2), "b:2", "b")
    peers = known_peers(probe)
    peers.left_out(one)
    assert run(peers.worth_a_try([one, other], 1)) == [other]
    assert run(peers.worth_a_try([one], 1)) == []
    assert run(peers.worth_a_try([one], 2)) == [one], "without it there are too few"
    answering.add("a:1")
    for _ in range(2):  # one may have been under way
        assert probed.acquire(timeout=10)
    for _ in range(100):
        if run(peers.worth_a_try([one, other], 1)) == [one, other]:
            break
        probed.acquire(timeout=0.1)
    else:
        raise AssertionError("it answers and gets nothing")
    assert set(probes) == {"a:1"}, "who was never silent is not probed"


def test_a_silent_peer_that_nobody_has_probed_lately_is_probed_by_the_next_write() -> None:
    """So that the first write after a pause leaves nobody out who is back since."""
    answering: set[str] = set()
    peers, one = known_peers(lambda address: address in answering, probes_max=0), Peer(NodeId(1), "a:1", "a")
    peers.left_out(one)
    for thread in threading.enumerate():
        if thread.name == "probe of node 1":
            thread.join(10)
    assert run(peers.worth_a_try([one], 1)) == []
    answering.add("a:1")
    for thread in threading.enumerate():
        if thread.name == "probe of node 1":
            thread.join(10)
    assert run(peers.worth_a_try([one], 1)) == [one]


def test_a_peer_whose_queue_stays_full_is_left_out(pair: Cluster) -> None:
    pair.limit(forward=ForwardLimits(queue_chunks=1, stall_ns=100_000_000, finish_ns=60 * SECOND_NS))
    released = threading.Event()
    pair.node(2).at_reading(1, lambda: released.wait(20))
    noise = rows(0, 10_000).set_column(1, "v", pa.array([os.urandom(1000).hex() for _ in range(10_000)]))
    try:
        stream = Stream(pair, 1, write_ticket(pair), ROWS_SCHEMA)
        answer = stream.send(*[noise] * 4).end(RowsEnd(rows=40_000))
        assert [one.node for one in expect(StagedSegment, answer).holders] == [1]
    finally:
        released.set()
