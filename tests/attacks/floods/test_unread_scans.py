"""Scans whose readers take nothing."""

import contextlib
import random

import grpc
import pyarrow as pa
import pytest

from leasehold.limits.flight import FLIGHT_READS_MAX
from leasehold.wire.flight import ticket
from leasehold.wire.flight_codec import write_field
from tests.attacks.floods.tickets import reading
from tests.attacks.ground import HONEST, ROOT, Ground

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

READ = "shop.read"
VALUE_BYTES = 64 * 1024
VALUES = 512
DO_GET = "/arrow.flight.protocol.FlightService/DoGet"
ON_EACH = 50
"""Calls of a connection."""


@pytest.fixture(scope="module")
def large_table(ground: Ground) -> None:
    """One segment of some 32 MiB."""
    drawn = random.Random(1)
    rows = pa.table({"a": range(VALUES), "b": [drawn.randbytes(VALUE_BYTES // 2).hex() for _ in range(VALUES)]})
    with ground.connect(ROOT) as root:
        root.sql(f"CREATE TABLE {READ} (a BIGINT, b STRING) CLUSTERED BY (a) INTO 1 BUCKETS")
        root.table(READ).append(rows)


@pytest.mark.usefixtures("large_table")
def test_scans_that_nobody_reads(ground: Ground, scale: int) -> None:
    with ground.connect(HONEST) as cluster, contextlib.ExitStack() as opened, ground.attacked():
        ((address, request),) = reading(cluster, READ)
        blob = write_field(1, ticket(request).ticket)
        channels: list[grpc.Channel] = []
        for number in range(scale * (FLIGHT_READS_MAX + 4)):
            if number % ON_EACH == 0:
                channels.append(opened.enter_context(ground.channel(address)))
            call = channels[-1].unary_stream(DO_GET)(blob)
            opened.callback(call.cancel)
            with contextlib.suppress(grpc.RpcError):
                next(iter(call))
