"""The synchronous connection: the same answers and errors as the asynchronous one, from any thread, after a fork."""

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.conformance.transport_ground import Echo
from tests.e2e.waiting import wait_until

from leasehold.core.words.messages import AskReceipts, AskTable, Execute, JoinWait, WhoAreYou
from leasehold.errors import Fenced, Indefinite, LeaseholdError, Unreachable
from leasehold.ids import StatementId
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.rpc import serve

SOON_NS = 10 * SECOND_NS
EMPTY_SETTINGS = b"\0\0\0\4\0\0\0\0\0"
"""The frame of HTTP/2 with which a server begins."""


def text(what: str) -> Execute:
    return Execute(cluster_id=None, statement=StatementId("0" * 32), text=what)


@pytest.fixture
def address() -> Generator[str, None, None]:
    """A server in a thread of its own."""
    ready: list[str] = []
    started = threading.Event()
    ends: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        end = asyncio.Event()
        ends.append((asyncio.get_running_loop(), end))
        server = await serve("127.0.0.1:0", Echo(), on_fault=lambda _fault: None)
        ready.append(server.address)
        started.set()
        await end.wait()
        await server.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert started.wait(10)
    yield ready[0]
    loop, end = ends[0]
    loop.call_soon_threadsafe(end.set)
    thread.join()


@pytest.fixture
def connection(address: str) -> Generator[BlockingConnection, None, None]:
    one = BlockingConnection(address)
    wait_until(lambda: _answers(one))  # on a busy machine the server may be late for the first attempt to connect
    yield one
    one.close()


def _answers(connection: BlockingConnection) -> bool:
    try:
        return connection.call(WhoAreYou(), SOON_NS) == WhoAreYou()
    except Unreachable:
        return False


def test_calls_are_answered_on_all_threads(connection: BlockingConnection) -> None:
    def call(number: int) -> object:
        return connection.call(AskTable(cluster_id=None, name=str(number)), SOON_NS)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(call, range(100))) == [
            AskTable(cluster_id=None, name=str(number)) for number in range(100)
        ]


def test_errors_arrive_as_themselves(connection: BlockingConnection) -> None:
    with pytest.raises(Fenced) as fenced:
        connection.call(text("fenced"), SOON_NS)
    assert fenced.value.hint == "ask another replica"
    with pytest.raises(Indefinite) as bug:
        connection.call(text("bug"), SOON_NS)
    assert bug.value.code == "INTERNAL"
    with pytest.raises(LeaseholdError) as large:
        connection.call(text("x" * MESSAGE_BYTES_MAX), SOON_NS)
    assert large.value.code == "MESSAGE_TOO_LARGE"


def test_a_timeout_is_indefinite_and_names_the_address(connection: BlockingConnection, address: str) -> None:
    with pytest.raises(Unreachable, match=r"0\.1 s") as caught:
        connection.call(text("hang"), 100 * MILLISECOND_NS)
    assert address in caught.value.text


def test_nobody_there_is_unreachable() -> None:
    connection = BlockingConnection("127.0.0.1:1")
    with pytest.raises(Unreachable, match="127"):
        connection.call(WhoAreYou(), SOON_NS)
    with pytest.raises(Unreachable, match="127"):
        list(connection.stream(WhoAreYou(), SOON_NS))
    connection.close()


def test_a_stream_is_read_whole_in_part_and_up_to_its_failure(connection: BlockingConnection) -> None:
    whole = list(connection.stream(AskReceipts(after=0, limit=100), SOON_NS))
    assert whole == [JoinWait(wait_ns=number) for number in range(100)]
    part = connection.stream(AskReceipts(after=0, limit=100), SOON_NS)
    assert next(iter(part)) == JoinWait(wait_ns=0)
    del part
    failing = iter(connection.stream(AskReceipts(after=1, limit=1), SOON_NS))
    assert next(failing) == JoinWait(wait_ns=0)
    with pytest.raises(Fenced):
        next(failing)
    hanging = iter(connection.stream(AskReceipts(after=2, limit=1), 200 * MILLISECOND_NS))
    assert next(hanging) == JoinWait(wait_ns=0)
    with pytest.raises(Unreachable):
        next(hanging)


def test_a_closed_connection_is_unreachable(connection: BlockingConnection) -> None:
    assert connection.call(WhoAreYou(), SOON_NS) == WhoAreYou()
    connection.close()
    connection.close()
    with pytest.raises(Unreachable, match="closed"):
        connection.call(WhoAreYou(), SOON_NS)


FORKED = """
import os, sys
from leasehold.core.words.messages import WhoAreYou
from leasehold.wire.blocking import BlockingConnection

def ask():
    return connection.call(WhoAreYou(), 10_000_000_000) == WhoAreYou()

connection = BlockingConnection(sys.argv[1])
child = os.fork()
if child == 0:
    os._exit(0 if ask() else 1)
_pid, status = os.waitpid(child, 0)
assert status == 0
assert ask()
connection.close()
"""


def test_a_forked_worker_makes_a_channel_of_its_own(address: str) -> None:
    # As in Spark: the connection is made before the fork and first used after it.
    subprocess.run([sys.executable, "-c", FORKED, address], check=True, timeout=60)


def test_what_was_never_sent_is_told_apart_from_what_may_have_happened(connection: BlockingConnection) -> None:
    with pytest.raises(Unreachable) as late:
        connection.call(text("hang"), 200 * MILLISECOND_NS)
    assert late.value.was_sent
    with socket.create_server(("127.0.0.1", 0)) as free:
        nowhere = f"127.0.0.1:{free.getsockname()[1]}"
    refusing = BlockingConnection(nowhere)
    with pytest.raises(Unreachable) as refused:
        refusing.call(WhoAreYou(), SOON_NS)
    with pytest.raises(Unreachable) as refused_stream:
        next(refusing.stream(WhoAreYou(), SOON_NS))
    refusing.close()
    assert not refused.value.was_sent
    assert not refused_stream.value.was_sent


def test_a_request_whose_connection_breaks_may_have_happened() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer_nothing() -> None:
            peer, _ = listening.accept()
            listening.close()
            with peer:
                peer.sendall(EMPTY_SETTINGS)
                received = b""
                while b"/Call" not in received:  # the header of the request, as its connection is new
                    received += peer.recv(1 << 16)

        serving = threading.Thread(target=answer_nothing)
        serving.start()
        breaking = BlockingConnection(f"127.0.0.1:{listening.getsockname()[1]}")
        with pytest.raises(Unreachable) as broken:
            breaking.call(WhoAreYou(), SOON_NS)
        serving.join()
        breaking.close()
    assert broken.value.was_sent
