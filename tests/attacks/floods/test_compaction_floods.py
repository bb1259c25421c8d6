"""Compactions that a user asks for, and never waits for."""

import contextlib

import pyarrow as pa
import pytest

from leasehold.core.data.compactions import OldSegment, compact_ticket
from leasehold.core.membership.identity import node_login
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import FlightCaller
from leasehold.wire.flight import CALLER_HEADER, ticket
from leasehold.wire.flight_codec import write_field
from tests.attacks.floods.test_unread_scans import CONNECTIONS, DO_GET, SCANS, VALUE_BYTES, VALUES
from tests.attacks.floods.test_writes_under_way import numbered
from tests.attacks.floods.tickets import logged_in, writing_everywhere
from tests.attacks.ground import ROOT, WRITER, Ground

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

JOINED = "shop.joined"
SEGMENTS = 4


@pytest.fixture(scope="module")
def small_segments(ground: Ground) -> None:
    """Of long strings that are all the same: some 32 MiB each once they are decoded. Their rows are sorted."""
    days = pa.array([one % 7 for one in range(VALUES)], pa.int32()).cast(pa.date32())
    rows = pa.table({"a": range(VALUES), "b": ["r" * VALUE_BYTES] * VALUES, "day": days})
    with ground.connect(ROOT) as root:
        root.sql(
            f"CREATE TABLE IF NOT EXISTS {JOINED} (a BIGINT, b STRING, day DATE) CLUSTERED BY (a) INTO 1 BUCKETS"
            " TBLPROPERTIES ('time_column' = 'day')"
        )
        for right in ("SELECT", "INSERT"):
            root.sql(f"GRANT {right} ON TABLE {JOINED} TO {WRITER[0]}")
        for _ in range(SEGMENTS):
            root.table(JOINED).append(rows)


@pytest.mark.usefixtures("small_segments")
def test_compactions_that_nobody_waits_for(ground: Ground, scale: int) -> None:
    with ground.connect(WRITER) as cluster, contextlib.ExitStack() as opened, ground.attacked():
        said = [(CALLER_HEADER, encode(FlightCaller(login=node_login(logged_in(cluster)))))]
        plan = cluster.plan(JOINED, None)
        old = [OldSegment(one.id, one.sha256, one.rows, one.size_bytes) for one in plan.segments]
        request, addresses, _ = writing_everywhere(cluster, JOINED)
        for address in addresses:
            channels = [opened.enter_context(ground.channel(address)) for _ in range(CONNECTIONS)]
            for number in range(scale * SCANS):
                asked = compact_ticket(numbered(request, number), old, plan.facts.generation)
                blob = write_field(1, ticket(asked).ticket)
                call = channels[number % CONNECTIONS].unary_stream(DO_GET)(blob, metadata=said)
                opened.callback(call.cancel)
