"""Answers larger than one message: the client hears all pages of one stream and joins them."""

import asyncio
import threading

import pytest

from leasehold.client.cluster import Cluster
from leasehold.core.questions.rows import pages
from leasehold.core.words.messages import ClusterFacts, Execute, Rows, WhoAreYou
from leasehold.errors import BadSettings, Refused
from leasehold.limits.statements import ROWS_PAGE_MAX
from leasehold.wire.rpc import serve

COUNT = 2 * ROWS_PAGE_MAX + 1


class Coordinator:
    """Answers every statement with as many rows as its last word says; a new revision each time."""

    def __init__(self):
        self.asked = []

    async def call(self, request):
        if isinstance(request, WhoAreYou):
            return ClusterFacts(cluster_id="c" * 32, generation=1, term=1, leader=True)
        self.asked.append("call")
        return next(self._pages(request))

    async def stream(self, request):
        self.asked.append("stream")
        for page in self._pages(request):
            yield page

    async def session(self, duplex):
        raise Refused("no nodes here")

    def _pages(self, request):
        assert isinstance(request, Execute)
        count = int(request.text.split()[-1])
        rows = tuple((number,) for number in range(count))
        return pages(Rows(columns=("n",), rows=rows, revision=len(self.asked)))


@pytest.fixture
def served():
    """A coordinator and a client of it."""
    coordinator = Coordinator()
    addresses, ends, started = [], [], threading.Event()

    async def main():
        end = asyncio.Event()
        ends.append((asyncio.get_running_loop(), end))
        server = await serve("127.0.0.1:0", coordinator, on_fault=lambda _fault: None)
        addresses.append(server.address)
        started.set()
        await end.wait()
        await server.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert started.wait(10)
    with Cluster(addresses[0]) as cluster:
        yield coordinator, cluster
    loop, end = ends[0]
    loop.call_soon_threadsafe(end.set)
    thread.join()


@pytest.mark.parametrize("timeout", [float("nan"), float("inf"), -float("inf"), 1e30, 2**80, -1, 0])
def test_a_timeout_that_no_clock_can_count_is_refused_before_anything_is_asked(served, timeout):
    coordinator, cluster = served
    with pytest.raises(BadSettings, match="timeout"):
        cluster.sql("SHOW TABLES 1", timeout=timeout)
    assert coordinator.asked == []
    assert len(cluster.sql("SHOW TABLES 1", timeout=1e9).rows) == 1


@pytest.mark.parametrize("ask", [Cluster.sql, Cluster.facts, Cluster.compact])
def test_text_that_can_not_be_sent_is_refused(served, ask):
    """A byte of the command line that is no UTF-8 arrives as half a surrogate."""
    _, cluster = served
    with pytest.raises(Refused) as caught:
        ask(cluster, "CREATE DATABASE \udcff")
    assert caught.value.code == "BAD_TEXT"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (f"SHOW TABLES {COUNT}", ["stream"]),
        ("  show tables 1", ["stream"]),
        (f"DESCRIBE {COUNT}", ["call", "stream"]),
        (f"DESCRIBE {ROWS_PAGE_MAX}", ["call"]),
        ("DESCRIBE 0", ["call"]),
    ],
)
def test_all_rows_come_in_order_from_one_answer(served, text, asked):
    coordinator, cluster = served
    answer = cluster.sql(text)
    count = int(text.split()[-1])
    assert answer == Rows(columns=("n",), rows=tuple((number,) for number in range(count)), revision=len(asked))
    assert coordinator.asked == asked
