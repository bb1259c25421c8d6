"""Scans whose readers take nothing."""

import base64
import contextlib
import random
import threading
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest

from leasehold.core.membership.identity import node_login
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import FlightCaller
from leasehold.limits.flight import FLIGHT_READS_MAX
from leasehold.wire.flight import CALLER_HEADER, ticket
from leasehold.wire.flight_codec import write_field
from tests.attacks.floods.test_raw_calls import SECONDS, Asked, floods
from tests.attacks.floods.tickets import logged_in, reading
from tests.attacks.ground import READER, ROOT, TABLE, Ground
from tests.attacks.unfinished import header_block, in_message

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

READ = "shop.read"
REPEATING = "shop.repeating"
VALUE_BYTES = 64 * 1024
VALUES = 512
DO_GET = "/arrow.flight.protocol.FlightService/DoGet"
DO_PUT = "/arrow.flight.protocol.FlightService/DoPut"
CONNECTIONS = 4
"""To each node."""
SCANS = FLIGHT_READS_MAX + 4
"""Of each node."""


@pytest.fixture(scope="module")
def large_table(ground: Ground) -> None:
    """One segment of some 32 MiB."""
    drawn = random.Random(1)
    rows = pa.table({"a": range(VALUES), "b": [drawn.randbytes(VALUE_BYTES // 2).hex() for _ in range(VALUES)]})
    with ground.connect(ROOT) as root:
        root.sql(f"CREATE TABLE IF NOT EXISTS {READ} (a BIGINT, b STRING) CLUSTERED BY (a) INTO 1 BUCKETS")
        root.table(READ).append(rows)


@pytest.fixture(scope="module")
def repeating_table(ground: Ground) -> None:
    """One small segment of long strings that are all the same: some 64 MiB once they are decoded."""
    rows = pa.table({"a": range(2 * VALUES), "b": ["r" * VALUE_BYTES] * 2 * VALUES})
    with ground.connect(ROOT) as root:
        root.sql(f"CREATE TABLE IF NOT EXISTS {REPEATING} (a BIGINT, b STRING) CLUSTERED BY (a) INTO 1 BUCKETS")
        root.table(REPEATING).append(rows)


@pytest.mark.usefixtures("large_table", "repeating_table")
@pytest.mark.parametrize("table", [READ, REPEATING])
def test_scans_that_nobody_reads(ground: Ground, scale: int, table: str) -> None:
    with ground.connect(READER) as cluster, contextlib.ExitStack() as opened, ground.attacked():
        said = [(CALLER_HEADER, encode(FlightCaller(login=node_login(logged_in(cluster)))))]
        for address, request in reading(cluster, table):
            blob = write_field(1, ticket(request).ticket)
            channels = [opened.enter_context(ground.channel(address)) for _ in range(CONNECTIONS)]
            for number in range(scale * SCANS):
                call = channels[number % CONNECTIONS].unary_stream(DO_GET)(blob, metadata=said)
                opened.callback(call.cancel)


CALLERS_CONNECTIONS = 8
"""To each node."""


@pytest.mark.parametrize("says", ["a ticket", "nothing"])
def test_calls_without_end_of_a_user(ground: Ground, scale: int, says: str) -> None:
    """Scans that nobody reads, or writes that say nothing: as many as a connection may have, and two for each that
    ends."""
    with ground.connect(READER) as cluster:
        caller = encode(FlightCaller(login=node_login(logged_in(cluster))))
        said = {CALLER_HEADER: base64.b64encode(caller).rstrip(b"=").decode()}
        attackers: list[Callable[[threading.Event], None]] = []
        for address, request in reading(cluster, TABLE):
            asked = Asked(header_block(DO_PUT, address, said=said), None)
            if says == "a ticket":
                message = in_message(write_field(1, ticket(request).ticket))
                asked = Asked(header_block(DO_GET, address, said=said), message)
            host = ground.strange_host(2)
            attackers += [partial(asked.followed, ground, address, host)] * CALLERS_CONNECTIONS
        floods(ground, attackers, SECONDS * scale)
