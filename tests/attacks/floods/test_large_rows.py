"""Rows as large as a row may be: many of them are written, scanned, and compacted at the same time."""

import contextlib
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster
from leasehold.core.data.compactions import OldSegment, compact_ticket
from leasehold.core.membership.identity import node_login
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import FlightCaller, Message
from leasehold.limits.flight import FLIGHT_MESSAGE_BYTES_MAX, FLIGHT_WRITES_MAX
from leasehold.limits.segments import PAGE_BYTES
from leasehold.wire.flight import CALLER_HEADER, ticket
from leasehold.wire.flight_codec import write_field
from tests.attacks.floods.test_unread_scans import CONNECTIONS, DO_GET
from tests.attacks.floods.test_writes_under_way import numbered
from tests.attacks.floods.tickets import logged_in, reading, writing_everywhere
from tests.attacks.ground import READER, ROOT, WRITER, Ground

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

LARGE = "shop.large"
SIZES = {"of a page": PAGE_BYTES, "that just fit": FLIGHT_MESSAGE_BYTES_MAX - 64 * 1024}
SEGMENTS = 6
WRITERS = FLIGHT_WRITES_MAX // 2
"""At the same time: as many places as a user has."""
WRITES = 2 * WRITERS
CALLS = 40
"""To each node."""


def one_row(size_bytes: int, seed: int = 1) -> pa.Table:
    """It can't be compressed to less than half."""
    return pa.table({"a": [seed], "b": [random.Random(seed).randbytes(size_bytes // 2).hex()]})


@pytest.fixture(scope="module")
def large_rows(ground: Ground) -> None:
    """One in each segment."""
    with ground.connect(ROOT) as root:
        root.sql(f"CREATE TABLE IF NOT EXISTS {LARGE} (a BIGINT, b STRING) CLUSTERED BY (a) INTO 1 BUCKETS")
        for right in ("SELECT", "INSERT"):
            root.sql(f"GRANT {right} ON TABLE {LARGE} TO {WRITER[0]}")
        for number in range(SEGMENTS):
            root.table(LARGE).append(one_row(SIZES["that just fit"], number))


@pytest.mark.usefixtures("large_rows")
@pytest.mark.parametrize("size", SIZES)
def test_large_rows_of_many_writers(ground: Ground, scale: int, size: str) -> None:
    row = one_row(SIZES[size])
    with ground.connect(WRITER) as cluster, ground.attacked(), ThreadPoolExecutor(WRITERS) as writers:
        table = cluster.table(LARGE)
        assert sum(writers.map(table.append, [row] * WRITES * scale)) == WRITES * scale


def has_begun(call: Any) -> bool:
    """Takes its first answer, if it does not end before: a busy node may refuse any of them."""
    with contextlib.suppress(grpc.RpcError):
        return bool(next(call))
    return False


def call_all(ground: Ground, cluster: Cluster, calls: list[tuple[str, Message]]) -> None:
    """Makes these calls, each to an address, and takes only the first answer of the first one that has one."""
    said = [(CALLER_HEADER, encode(FlightCaller(login=node_login(cluster.token))))]
    with contextlib.ExitStack() as opened, ground.attacked():
        channels = {
            address: [opened.enter_context(ground.channel(address)) for _ in range(CONNECTIONS)] for address, _ in calls
        }
        begun: list[Any] = []
        for number, (address, request) in enumerate(calls):
            blob = write_field(1, ticket(request).ticket)
            begun.append(channels[address][number % CONNECTIONS].unary_stream(DO_GET)(blob, metadata=said))
            opened.callback(begun[-1].cancel)
        assert any(map(has_begun, begun)), "each waits for the memory that others have"


@pytest.mark.usefixtures("large_rows")
def test_scans_of_large_rows(ground: Ground, scale: int) -> None:
    with ground.connect(READER) as cluster:
        logged_in(cluster)
        asked: list[tuple[str, Message]] = list(reading(cluster, LARGE))
        call_all(ground, cluster, asked * (CALLS * scale // SEGMENTS))


@pytest.mark.usefixtures("large_rows")
def test_compactions_of_large_rows(ground: Ground, scale: int) -> None:
    with ground.connect(WRITER) as cluster:
        request, addresses, _ = writing_everywhere(cluster, LARGE)
        plan = cluster.plan(LARGE, None)
        old = [OldSegment(one.id, one.sha256, one.rows, one.size_bytes) for one in plan.segments]
        asked: list[tuple[str, Message]] = [
            (address, compact_ticket(numbered(request, number), old, plan.facts.generation))
            for number in range(CALLS * scale)
            for address in addresses
        ]
        call_all(ground, cluster, asked)
