"""Peers whose kernel lives while their process is silent, from each step of a call on."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pytest

from leasehold.client.append import stage
from leasehold.core.data.forwarding import Forwarding
from leasehold.core.data.peers import Peers
from leasehold.core.data.write_access import Peer
from leasehold.core.words.messages import BytesEnd, ForwardTicket, StagedSegment
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.ids import BucketNumber, Incarnation, NodeId, ObjectId, Revision, SegmentId, TransactionId
from leasehold.limits.clients import STAGE_CALL_NS
from leasehold.limits.flight import FLIGHT_KEEPALIVE_INTERVAL_NS, FLIGHT_KEEPALIVE_TIMEOUT_NS
from leasehold.limits.replication import FORWARD_CHUNK_BYTES, FORWARD_QUEUE_CHUNKS
from leasehold.limits.segments import SEGMENT_BYTES_MAX
from leasehold.limits.sessions import KEEPALIVE_INTERVAL_NS, KEEPALIVE_TIMEOUT_NS
from leasehold.limits.units import SECOND_NS
from leasehold.node.disk.disk_port import fetch_segment
from leasehold.node.serving.peers import FlightPeers
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.flight import calling, reader_to, ticket
from leasehold.wire.rpc_client import GrpcTransport
from leasehold.wire.steps import ThreadRuntime, run
from tests.unit.node.cluster import CLUSTER, Cluster, cluster, rows

SOON_NS: Final = 4 * (FLIGHT_KEEPALIVE_INTERVAL_NS + FLIGHT_KEEPALIVE_TIMEOUT_NS)
"""With room for a machine that is busy; without the keepalive it takes STAGE_CALL_NS."""

WINDOW_MAX: Final = (2**31 - 1).to_bytes(4)
SETTINGS: Final = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""The HTTP/2 frame that each side sends first; what it leaves out has its default, as a window of 65,535 bytes."""
NO_WINDOW: Final = (
    b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04" + WINDOW_MAX,
    b"\x00\x00\x04\x08\x00\x00\x00\x00\x00" + (2**31 - 1 - 65_535).to_bytes(4),
)
"""The same with the largest window, first for each stream, then for the connection."""


def says_nothing(_: socket.socket) -> None:
    """HTTP/2 never begins."""


def takes_a_window(connection: socket.socket) -> None:
    """The sender waits behind the window, with nothing in its kernel that could time out."""
    connection.sendall(SETTINGS)


def takes_what_its_kernel_holds(connection: socket.socket) -> None:
    """The sender is blocked in its kernel."""
    connection.sendall(b"".join(NO_WINDOW))


def takes_all(connection: socket.socket) -> None:
    """The sender waits for the answer."""
    connection.sendall(b"".join(NO_WINDOW))
    while connection.recv(1024 * 1024):
        pass


PHASES: Final = (says_nothing, takes_a_window, takes_what_its_kernel_holds, takes_all)


@contextmanager
def silent(phase: Callable[[socket.socket], None]) -> Generator[str]:
    """The address of a peer that is silent from `phase` on."""
    connections: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def play(connection: socket.socket) -> None:
        with suppress(OSError):  # the client or the test has closed it
            phase(connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            connections.append(connection)
            threads.append(threading.Thread(target=play, args=(connection,)))
            threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for connection in connections:
                with suppress(OSError):  # the client has closed it
                    connection.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()
            for connection in connections:
                connection.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        yield made


def test_a_writer_leaves_a_silent_node_soon(pair: Cluster) -> None:
    """gRPC's own keepalive timeout does nothing: behind a full window the call once lasted until its deadline."""
    assert SOON_NS < STAGE_CALL_NS
    pair.stop(pair.node(1))
    wide = pa.record_batch({"k": range(20_000), "v": [os.urandom(500).hex() for _ in range(20_000)]})
    now_ns = BoottimeClock().now_ns
    transaction = pair.open()

    def write(address: str) -> tuple[StagedSegment, int]:
        facts, began_ns = pair.facts(), now_ns()
        places = [msgspec.structs.replace(one, address=address) if one.node == 1 else one for one in facts.places]
        facts = msgspec.structs.replace(facts, places=tuple(places))
        (staged,) = stage(facts, transaction, [wide], facts.revision)
        return staged, now_ns() - began_ns

    with ExitStack() as peers, ThreadPoolExecutor(len(PHASES)) as pool:
        addresses = [peers.enter_context(silent(phase)) for phase in PHASES]
        for phase, (staged, took_ns) in zip(PHASES, pool.map(write, addresses), strict=True):
            assert [one.node for one in staged.holders] == [2]
            assert took_ns < SOON_NS, phase.__name__


def test_forwarding_leaves_no_thread_with_a_silent_peer() -> None:
    request = ForwardTicket(
        cluster_id=CLUSTER,
        segment=SegmentId("s"),
        table=ObjectId(1),
        bucket=BucketNumber(0),
        revision=Revision(1),
        sender=NodeId(9),
        sender_incarnation=Incarnation(1),
    )
    now_ns = BoottimeClock().now_ns
    end = BytesEnd(size_bytes=1, sha256=b"")
    with ExitStack() as opened:
        peers = [
            Peer(NodeId(place), opened.enter_context(silent(phase)), f"node-{place}")
            for place, phase in enumerate(PHASES)
        ]
        known = Peers(ThreadRuntime(now_ns), FlightPeers(None))
        threads: list[threading.Thread] = []

        async def forward() -> None:
            async with Forwarding(peers, request, known, min_in_sync=1) as forwarding:
                threads.extend(one for one in threading.enumerate() if one.name.startswith("forward to node"))
                assert len(threads) == len(PHASES)
                for _ in range(2 * FORWARD_QUEUE_CHUNKS):
                    await forwarding.send(bytes(FORWARD_CHUNK_BYTES))
                await forwarding.send(end)
                assert await forwarding.holders(end) == []

        run(forward())
        assert run(known.worth_a_try(peers, 1)) == []
        give_up_ns = now_ns() + SOON_NS
        for thread in threads:
            thread.join(max(0, give_up_ns - now_ns()) / SECOND_NS)
            assert not thread.is_alive(), thread.name


def test_a_copy_from_a_silent_peer_ends_soon(pair: Cluster) -> None:
    transaction = pair.open()
    pair.commit(transaction, stage(pair.facts(), transaction, [rows(0, 10)], pair.catalog.revision))
    (record,) = pair.plan().segments
    # As many bytes as give the call a deadline that is far away, of a segment that is not here.
    record = msgspec.structs.replace(
        record, id=SegmentId(f"{TransactionId('a' * 32)}-{'b' * 32}"), size_bytes=SEGMENT_BYTES_MAX
    )
    asked: list[tuple[NodeId, LeaseholdError | None]] = []
    began_ns = BoottimeClock().now_ns()
    with silent(says_nothing) as one, silent(takes_a_window) as other:
        places = [Peer(NodeId(1), one, "node-1"), Peer(NodeId(2), other, "node-2")]
        here = pair.node(1)
        assert not fetch_segment(
            here.files, record, places, CLUSTER, here.published, lambda node, error, _came: asked.append((node, error))
        )
    assert BoottimeClock().now_ns() - began_ns < SOON_NS
    assert [(node, error and error.code) for node, error in asked] == [(1, "UNREACHABLE"), (2, "UNREACHABLE")]


def test_who_was_unreachable_is_connected_to_anew(pair: Cluster) -> None:
    """Calls under way on the old connection end as if nothing had happened."""
    transaction = pair.open()
    pair.commit(transaction, stage(pair.facts(), transaction, [rows(0, 50_000)], pair.catalog.revision))
    (segment,) = pair.plan().segments
    address = pair.facts().places[0].address
    before = reader_to(address)
    assert reader_to(address) is before
    stream = before.do_get(ticket(pair.read_ticket(segment)))
    found = stream.read_chunk().data.num_rows
    with pytest.raises(Unreachable), calling(address):
        raise pa.ArrowInvalid("another stream broke")
    assert reader_to(address) is not before
    del before
    found += sum(chunk.data.num_rows for chunk in stream)
    assert found == 50_000


SERVER: Final = """
import asyncio
from leasehold.wire.rpc import serve

class Listens:
    async def session(self, duplex):
        while await duplex.receive() is not None:
            pass

async def main():
    server = await serve("127.0.0.1:0", Listens(), on_fault=print)
    print(server.address, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def listening() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        yield server
        server.kill()


async def test_a_session_with_a_stopped_coordinator_ends_within_a_lease(listening: subprocess.Popen[str]) -> None:
    """Nothing waits to be sent, so only the answer to a ping can tell."""
    assert listening.stdout is not None
    connection = GrpcTransport().connect(listening.stdout.readline().strip())
    duplex = await connection.session()
    listening.send_signal(signal.SIGSTOP)
    with pytest.raises(Unreachable):
        async with asyncio.timeout(4 * (KEEPALIVE_INTERVAL_NS + KEEPALIVE_TIMEOUT_NS) / SECOND_NS):
            await duplex.receive()
    listening.kill()
    await connection.close()
