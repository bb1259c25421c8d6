"""What a client does while no coordinator answers: it asks again until the caller's deadline, whatever it was asked."""

import itertools
import socket
from collections.abc import Callable, Iterable

import msgspec
import polars as pl
import pyarrow as pa
import pytest

from leasehold.client.append import stage
from leasehold.client.cluster import Cluster, connect
from leasehold.client.insert import insert
from leasehold.client.table import Table
from leasehold.core.ddl.origin import hash_text
from leasehold.core.words.messages import ScanPlan, StagedSegment, TableFacts, TransactionFacts
from leasehold.core.words.records import TransactionState
from leasehold.errors import BadSettings, NotFound, OutcomeUnknown, Refused, Unreachable
from leasehold.ids import ClusterId, ObjectId, StatementId, TransactionId
from leasehold.limits.clients import CLIENT_PATIENCE_NS
from leasehold.limits.segments import TRANSACTION_RENEW_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.failures import plainly
from leasehold.wire.steps import ThreadRuntime
from tests.unit.client.test_places import pair  # noqa: F401 # pyright: ignore[reportUnusedImport] - a fixture
from tests.unit.node.cluster import Cluster as Nodes
from tests.unit.node.cluster import rows


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"127.0.0.1:{listening.getsockname()[1]}"


ASKED: dict[str, Callable[[Cluster], object]] = {
    "table": lambda cluster: cluster.table("d.t"),
    "view": lambda cluster: cluster.view("d.v"),
    "plan": lambda cluster: cluster.plan("d.t"),
    "sql": lambda cluster: cluster.sql("CREATE DATABASE d", statement_id=StatementId("5" * 32)),
}


@pytest.mark.parametrize("what", ASKED)
def test_each_question_is_asked_until_the_deadline_and_says_what_it_met(what: str, nobody: str) -> None:
    retries: list[float] = []
    with Cluster(nobody, timeout=0.5, on_retry=lambda _, left: retries.append(left)) as cluster:
        began_ns = BoottimeClock().now_ns()
        with pytest.raises((Unreachable, OutcomeUnknown)) as caught:
            ASKED[what](cluster)
        assert BoottimeClock().now_ns() - began_ns >= SECOND_NS // 2
    assert retries
    assert all(0 < left <= 0.5 for left in retries)
    assert "no answer within 0.5 s" in caught.value.text
    assert "connection refused" in caught.value.text
    for debug in ("UNAVAILABLE", "ipv4", "grpc", "errno", "UNKNOWN:"):
        assert debug not in caught.value.text, "gRPC's debug text is not for people"
    if isinstance(caught.value, OutcomeUnknown):
        assert caught.value.statement_id == "5" * 32


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), 1e12])
def test_a_timeout_out_of_range_is_refused(timeout: float) -> None:
    with pytest.raises(BadSettings):
        connect("127.0.0.1:1", timeout=timeout)


def test_an_append_that_was_not_committed_says_that_nothing_was_written(nobody: str, pair: Nodes) -> None:  # noqa: F811
    with connect(nobody, timeout=0.2) as cluster:
        with pytest.raises(Refused, match="nothing was written: no answer within") as caught:
            Table(cluster, pair.facts()).append(pa.table({"k": [1]}))
        assert caught.value.code == "UNREACHABLE"


class Answering(Cluster):
    """A client whose coordinator is the catalog of a test."""

    def __init__(self, made: Nodes) -> None:
        super().__init__("127.0.0.1:1")
        self.made = made
        self.texts: list[bytes] = []

    def facts(self, name: str) -> TableFacts:
        return self.made.facts()

    def plan(self, *_: object, **__: object) -> ScanPlan:
        return self.made.plan()

    def open_transaction(
        self, facts: TableFacts, transaction: TransactionId, text_sha256: bytes = b"", **_: object
    ) -> TransactionFacts:
        self.texts.append(text_sha256)
        opened = transaction if transaction in self.made.catalog.transactions else self.made.open()
        self.opened = opened
        revision = self.made.catalog.revision
        return TransactionFacts(transaction=opened, state=TransactionState.OPEN, rows=0, revision=revision)

    def commit(
        self, cluster_id: ClusterId, transaction: TransactionId, segments: Iterable[StagedSegment], **_: object
    ) -> TransactionFacts:
        self.made.commit(self.opened, staged := tuple(segments))
        revision, added = self.made.catalog.revision, sum(one.rows for one in staged)
        return TransactionFacts(
            transaction=transaction, state=TransactionState.COMMITTED, rows=added, revision=revision
        )

    def try_abort(self, cluster_id: ClusterId, transaction: TransactionId) -> TransactionFacts:
        raise Unreachable("no coordinator")


def test_a_table_that_was_dropped_and_made_again_is_another_table(pair: Nodes) -> None:  # noqa: F811
    facts = pair.facts()
    cluster = Answering(pair)
    table = Table(cluster, facts)
    assert table.scan().read_all().num_rows == 0
    transaction = pair.open()
    pair.commit(transaction, stage(facts, transaction, [rows(0, 3)], pair.catalog.revision))
    assert table.scan().read_all().num_rows == 3
    old = Table(cluster, msgspec.structs.replace(facts, table=ObjectId(facts.table + 1)))
    uses: tuple[Callable[[], object], ...] = (old.scan, lambda: old.append(pa.table({"k": [1]})))
    for use in uses:
        with pytest.raises(NotFound) as caught:
            use()
        assert caught.value.code == "TABLE_DROPPED"


def test_an_insert_names_its_text_whenever_it_asks_for_more_time(
    pair: Nodes,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Whenever the clock is looked at, it is time to ask for more.
    leaping = ThreadRuntime(itertools.count(0, TRANSACTION_RENEW_NS).__next__)
    monkeypatch.setattr("leasehold.client.cluster.THREADS", leaping)
    cluster, text = Answering(pair), "INSERT INTO db.t (k) VALUES (7)"
    insert(cluster, text)
    assert cluster.texts == [hash_text(text)] * 2
    assert Table(cluster, pair.facts()).append(pa.table({"k": [8]})) == 1
    assert cluster.texts[2:] == [b""] * 2


def test_a_frame_of_polars_is_appended_by_the_names_of_its_columns(pair: Nodes) -> None:  # noqa: F811
    table = Table(Answering(pair), pair.facts())
    frame = pl.DataFrame({"v": ["one", None, "three"], "k": [1, 2, 3]})
    assert table.append(frame) == 3
    found = table.scan().read_all().sort_by("k").to_pydict()
    assert found == {"k": [1, 2, 3], "v": ["one", None, "three"]}
    with pytest.raises(Refused) as caught:
        table.append(pl.DataFrame({"k": ["no number"]}))
    assert caught.value.code == "ROWS_DO_NOT_FIT"


def test_a_coordinator_is_asked_for_half_a_minute_unless_told_otherwise() -> None:
    assert CLIENT_PATIENCE_NS == 30 * SECOND_NS


def test_errors_of_grpc_are_said_plainly() -> None:
    raw = (
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host:"
        " connect: Connection refused (111)"
    )
    assert plainly(raw) == "nothing listens there (connection refused)"
    assert plainly("Socket closed") == "the connection broke"
    assert plainly("ping timeout") == "the process there does not answer"
    assert plainly("what nobody has seen") is None
