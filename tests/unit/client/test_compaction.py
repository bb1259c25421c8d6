"""A rewrite as the client does it: in portions, planned anew when the table changed, nothing half done."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from typing import Literal as OneOf

import msgspec
import pytest

from leasehold.client.compaction import Compaction, compact, first_portion, stage_compacted
from leasehold.client.scan import read_plan
from leasehold.client.threads import THREADS
from leasehold.core.data.commit import abort_transaction
from leasehold.core.data.known import Known
from leasehold.core.ddl import finish, roll_back
from leasehold.core.replicas.rewrite import worth_rewriting
from leasehold.core.words.messages import Replaced, ScanPlan, StagedSegment, TableFacts, TransactionFacts
from leasehold.core.words.records import SegmentFormat, SegmentRecord, TransactionState
from leasehold.core.words.statements import Condition, DeleteRows, Literal
from leasehold.errors import Refused
from leasehold.ids import BucketNumber, ClusterId, ObjectId, Revision, SchemaVersion, SegmentId, TransactionId
from leasehold.limits.clients import RETRY_PAUSE_NS
from leasehold.limits.upkeep import (
    REWRITE_ATTEMPTS,
    REWRITE_PLANS_MAX,
    REWRITE_PORTION_BYTES,
    REWRITE_PORTION_SEGMENTS,
    REWRITE_WAIT_NS,
)
from tests.unit.node.cluster import CLUSTER, NAME, Cluster, cluster, rename, rows
from tests.unit.node.formats import writing
from tests.unit.node.serving.test_scans import append, segment_of


class Coordinated:
    """What `rewrite` needs of a client, straight on the catalog of a test."""

    def __init__(self, made: Cluster) -> None:
        self.made = made
        self.before_commit: list[Callable[[], None]] = []
        self.plans = 0
        self.known = Known(THREADS)

    def plan(self, name: str, *, rewrite: bool) -> ScanPlan:
        assert (name, rewrite) == (str(NAME), True)
        self.plans += 1
        facts, segments = self.made.facts(), worth_rewriting(self.made.table, self.made.catalog)
        lean = tuple(msgspec.structs.replace(one, statistics=()) for one in segments)
        return ScanPlan(facts=facts, fields=facts.fields, segments=lean, deletes=self.made.table.deletes)

    def new_transaction(self) -> TransactionId:
        self.opened = self.made.open()
        return self.opened

    def open_transaction(self, facts: TableFacts, transaction: TransactionId) -> TransactionFacts:
        return self._facts(transaction, 0)

    def stage_compacted(
        self, facts: TableFacts, transaction: TransactionId, portion: Iterable[SegmentRecord], revision: Revision
    ) -> tuple[StagedSegment, ...]:
        return stage_compacted(facts, transaction, portion, revision, refresh=self.made.facts, known=self.known)

    def commit(
        self,
        cluster_id: ClusterId,
        transaction: TransactionId,
        segments: tuple[StagedSegment, ...],
        *,
        replaces: tuple[Replaced, ...],
        deletes: int,
        kept: int,
        keeps_rows: bool,
    ) -> TransactionFacts:
        assert cluster_id == CLUSTER
        if self.before_commit:
            self.before_commit.pop(0)()
        told = {"replaces": replaces, "deletes": deletes, "kept": kept, "keeps_rows": keeps_rows}
        self.made.commit(transaction, segments, **told)
        return self._facts(transaction, sum(one.rows for one in segments))

    def try_abort(self, cluster_id: ClusterId, transaction: TransactionId) -> None:
        self.made.change(abort_transaction(transaction, self.made.catalog))

    def _facts(self, transaction: TransactionId, number: int) -> TransactionFacts:
        record = self.made.catalog.transactions[transaction]
        revision = self.made.catalog.revision
        return TransactionFacts(transaction=transaction, state=record.state, rows=number, revision=revision)

    def compact(
        self,
        on_progress: Callable[[Compaction], None] | None = None,
        sleep: Callable[[int], None] = lambda _: pytest.fail("nothing is waited for"),
        **limits: int,
    ) -> Compaction:
        return compact(self, str(NAME), on_progress, sleep=sleep, **limits)  # type: ignore[arg-type]

    def rows(self) -> list[int]:
        return sorted(read_plan(self.made.plan()).read_all()["k"].to_pylist())


def delete(sign: OneOf["=", "<", "<=", ">", ">="], number: int) -> DeleteRows:
    return DeleteRows(table=NAME, where=(Condition(column="k", operator=sign, value=Literal("number", str(number))),))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Coordinated]:
    """A table of 300 rows in three segments."""
    with cluster(tmp_path, nodes=1) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"), replication=1)
        for start in (0, 100, 200):
            append(made, rows(start, 100))
        yield Coordinated(made)


def test_what_is_left_of_all_segments_is_written_as_one(client: Coordinated) -> None:
    client.made.run(delete(">=", 250))
    client.made.run(delete("<", 110))
    told: list[Compaction] = []
    done = client.compact(told.append)
    assert done == Compaction(segments_replaced=3, segments_written=1, rows_kept=140, rows_removed=160)
    assert told == [done]
    assert segment_of(client.made).rows == 140
    assert client.rows() == list(range(110, 250))
    assert client.compact() == Compaction(), "there is nothing left to do"


def test_where_no_row_is_left_there_is_no_new_segment(client: Coordinated) -> None:
    client.made.run(delete(">=", 0))
    assert client.compact() == Compaction(segments_replaced=3, rows_removed=300)
    assert client.made.plan().segments == ()
    assert client.rows() == []


def test_files_of_an_older_format_become_files_of_the_newest(client: Coordinated) -> None:
    with writing(SegmentFormat.COLUMN_NAMES):
        append(client.made, rows(300, 100))
    for old, new in (("k", "was"), ("v", "k"), ("was", "v")):
        client.made.run(rename(old, new))
    before = read_plan(client.made.plan()).read_all().sort_by("v")
    done = Compaction(segments_replaced=1, segments_written=1, rows_kept=100)
    assert client.compact() == done, "the others are left alone"
    assert {one.format for one in client.made.plan().segments} == {SegmentFormat.FIELD_IDS}
    assert read_plan(client.made.plan()).read_all().sort_by("v") == before
    assert client.compact() == Compaction()


def test_a_rewrite_ends_while_the_nodes_write_an_older_format(
    client: Coordinated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.client.compaction.REWRITE_PLAN_SEGMENTS_MAX", 1)
    with writing(SegmentFormat.COLUMN_NAMES):
        append(client.made, rows(300, 100))
        assert client.compact().segments_replaced == REWRITE_PLANS_MAX
    assert client.rows() == list(range(400))


def test_each_portion_is_told_and_stays(client: Coordinated) -> None:
    client.made.run(delete("<", 250))
    told: list[Compaction] = []

    def fail() -> None:
        raise OSError("the client ends here")

    client.before_commit = [lambda: None, fail]
    with pytest.raises(OSError, match="ends here"):
        client.compact(told.append, portion_max=1)
    assert [one.segments_replaced for one in told] == [1]
    assert client.made.catalog.transactions[client.opened].state is TransactionState.ABORTED
    assert client.rows() == list(range(250, 300))
    assert client.compact(portion_max=1).segments_replaced == 2


def test_what_changed_meanwhile_is_planned_anew(client: Coordinated) -> None:
    """A DELETE that is rolled back had hidden rows from what was read: they must not be lost."""
    client.made.run(delete("<", 50))

    def come_and_go() -> None:
        procedure = client.made.hide(delete(">", 60))
        client.made.change(roll_back(procedure, client.made.catalog, elapsed_ns=1))

    client.before_commit = [come_and_go, lambda: client.made.run(delete("=", 299))]
    assert client.compact().rows_removed == 51
    assert client.plans == 3
    assert client.rows() == list(range(50, 299))


def test_a_table_that_never_rests_is_given_up_unchanged(client: Coordinated) -> None:
    client.made.run(delete("<", 50))
    numbers = range(100, 100 + REWRITE_ATTEMPTS)
    client.before_commit = [lambda at=number: client.made.run(delete("=", at)) for number in numbers]
    with pytest.raises(Refused) as caught:
        client.compact()
    assert caught.value.code == "REWRITE_STALE"
    assert client.plans == REWRITE_ATTEMPTS
    assert not client.made.catalog.replaced
    ended = [one.state for one in client.made.catalog.transactions.values()]
    assert TransactionState.OPEN not in ended


def test_smaller_portions_get_through_between_deletes(client: Coordinated) -> None:
    """A DELETE falls into every commit of more than one segment: rewriting is the one cure for too many of them."""
    client.made.run(delete("<", 50))
    commit, numbers = client.commit, iter(range(200, 220))

    def amid_deletes(*args: Any, replaces: tuple[Replaced, ...], **more: Any) -> TransactionFacts:
        if len(replaces) > 1:
            client.made.run(delete("=", next(numbers)))
        return commit(*args, replaces=replaces, **more)

    client.commit = amid_deletes  # type: ignore[method-assign]
    done = client.compact()
    gone = next(numbers) - 200
    assert done.rows_removed == 50 + gone
    assert client.rows() == [*range(50, 200), *range(200 + gone, 300)]
    assert client.made.table.deletes == 1 + gone


def test_a_statement_that_takes_something_away_is_waited_for(client: Coordinated) -> None:
    procedure = client.made.hide(delete("<", 50))
    pauses: list[int] = []

    def sleep(pause_ns: int) -> None:
        pauses.append(pause_ns)
        if len(pauses) == 3:
            client.made.change(finish(procedure, client.made.catalog))

    assert client.compact(sleep=sleep).rows_removed == 50
    assert pauses == [RETRY_PAUSE_NS] * 3


def test_nothing_is_read_while_a_statement_takes_something_away_and_the_wait_has_an_end(client: Coordinated) -> None:
    client.made.hide(delete("<", 50))
    pauses: list[int] = []
    with pytest.raises(Refused) as caught:
        client.compact(sleep=pauses.append)
    assert caught.value.code == "UNDER_WAY"
    assert sum(pauses) == REWRITE_WAIT_NS
    assert not client.made.catalog.replaced


def portions(segments: list[SegmentRecord], divisor: int = 1) -> Iterator[tuple[SegmentRecord, ...]]:
    while segments:
        portion = first_portion(segments, divisor)
        segments = segments[len(portion) :]
        yield portion


def test_a_portion_has_its_bounds_and_at_least_one_segment() -> None:
    def segment(size_bytes: int) -> SegmentRecord:
        return SegmentRecord(
            id=SegmentId("s"),
            table=ObjectId(1),
            bucket=BucketNumber(0),
            schema_version=SchemaVersion(1),
            rows=1,
            size_bytes=size_bytes,
            sha256=b"",
            statistics=(),
            holders=(),
        )

    assert list(portions([])) == []
    many = [segment(1)] * (2 * REWRITE_PORTION_SEGMENTS + 1)
    assert [len(one) for one in portions(many)] == [REWRITE_PORTION_SEGMENTS, REWRITE_PORTION_SEGMENTS, 1]
    large = [segment(one) for one in (REWRITE_PORTION_BYTES + 1, 1, REWRITE_PORTION_BYTES - 1, 1)]
    assert [[one.size_bytes for one in portion] for portion in portions(large)] == [
        [REWRITE_PORTION_BYTES + 1],
        [1, REWRITE_PORTION_BYTES - 1],
        [1],
    ]
    assert [len(one) for one in portions(many, 4)][:-1] == [REWRITE_PORTION_SEGMENTS // 4] * 8
    assert {len(one) for one in portions(many, 2 * REWRITE_PORTION_SEGMENTS)} == {1}
    assert [len(one) for one in portions([segment(REWRITE_PORTION_BYTES // 4)] * 2, 4)] == [1, 1]
