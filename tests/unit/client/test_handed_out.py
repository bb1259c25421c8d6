"""What lies in buffers when a client hears of something newer is not handed out any more."""

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from leasehold.client.append import stage
from leasehold.client.replicas import FlightReplicas
from leasehold.client.scan import read_plan
from leasehold.client.threads import THREADS, places_of
from leasehold.core.data.attempts import Attempt, Inbox
from leasehold.core.data.known import Known
from leasehold.core.words.messages import BatchMark, Receipt, TableFacts
from leasehold.core.words.records import Outcome
from leasehold.errors import Refused
from leasehold.ids import Generation, Incarnation, NodeId, Revision, Sequence, StatementId, Term
from leasehold.limits.clients import PLACE_REST_MIN_NS, SCAN_AHEAD_BYTES_MAX
from leasehold.storage.schema import arrow_schema
from leasehold.wire.steps import run
from tests.unit.client.pace import paced
from tests.unit.node.cluster import DROP_TABLE, Cluster, add, cluster, rows

SEGMENTS = 6


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    """Rows 0 to 11,999 in six segments, each on both nodes, served in batches of 1,000."""
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        for number in range(SEGMENTS):
            append(made, rows(2000 * number, 2000))
        yield made


def append(made: Cluster, batch: pa.RecordBatch) -> None:
    transaction = made.open()
    made.commit(transaction, stage(made.facts(), transaction, [batch], made.catalog.revision))


def receipt(revision: Revision) -> Receipt:
    return Receipt(
        statement_id=StatementId("s"),
        text="",
        revision=revision,
        outcome=Outcome.COMMITTED,
        elapsed_ns=1,
        bound_ns=1,
        settled=(),
        pending=(),
        cleaning=(),
    )


def reading(made: Cluster, known: Known) -> pa.RecordBatchReader:
    """A reader that has taken one batch, and has more in its buffers."""
    before = sum(node.readings for node in made.nodes)
    reader = read_plan(made.plan(), known=known)
    assert reader.read_next_batch().num_rows == 1000
    for _ in range(1_000):
        # Each of the first segments: one look at the clock admits it, then one for each batch.
        if sum(node.readings for node in made.nodes) - before >= 10:
            return reader
        threading.Event().wait(0.01)
    raise AssertionError("nothing is read ahead")


def test_after_a_drop_has_returned_nothing_of_the_table_is_handed_out(pair: Cluster) -> None:
    known = Known(THREADS)
    reader = reading(pair, known)
    pair.run(DROP_TABLE)
    known.heard(receipt(pair.catalog.revision))
    with pytest.raises(Refused) as caught:
        reader.read_next_batch()
    assert caught.value.code == "TABLE_DROPPED"


def test_what_takes_nothing_away_costs_a_reader_a_question_and_no_row(pair: Cluster) -> None:
    known = Known(THREADS)
    whole = read_plan(pair.plan()).read_all()["k"].to_pylist()
    reader = reading(pair, known)
    pair.run(add("extra"))
    known.heard(receipt(pair.catalog.revision))
    before = sum(node.readings for node in pair.nodes)
    found = [value for batch in reader for value in batch["k"].to_pylist()]
    assert found == whole[1000:]
    assert sum(node.readings for node in pair.nodes) - before >= 15, "all but the first batch was released anew"


def attempt_into(inbox: Inbox[pa.RecordBatch], made: Cluster) -> Attempt[pa.RecordBatch]:
    """One that was never started."""
    plan = made.plan()
    request = made.read_ticket(plan.segments[0])
    stream = FlightReplicas(arrow_schema(plan.fields), None).open(plan.facts.places[0], request, 1)
    return Attempt(NodeId(1), request, 0, stream, inbox, places_of(plan.facts))


def test_what_waits_for_a_reader_is_bounded_in_bytes(pair: Cluster) -> None:
    half = pa.record_batch({"x": pa.array([0] * (SCAN_AHEAD_BYTES_MAX // 16), pa.int64())})
    mark = BatchMark(next_row=1, view_revision=Revision(1), term=Term(1), sequence=Sequence(1))
    inbox = Inbox[pa.RecordBatch](THREADS)
    attempt = attempt_into(inbox, pair)
    assert run(inbox.put(attempt, (half, mark)))
    assert run(inbox.put(attempt, (half, mark)))
    put: list[bool] = []
    threads = [threading.Thread(target=lambda: put.append(run(inbox.put(attempt, (half, mark))))) for _ in range(2)]
    for thread in threads:
        thread.start()
    threads[0].join(0.1)
    assert put == [], "there is no room"
    assert run(inbox.take(None)) is not None
    while not put:
        threads[0].join(0.01)
    assert put == [True]
    inbox.close()
    for thread in threads:
        thread.join(10)
    assert put == [True, False], "nobody wants the last one any more"
    whole = pa.concat_batches([half] * 3)
    assert run(Inbox[pa.RecordBatch](THREADS).put(attempt, (whole, mark))), "a larger one waits alone"


def facts_of(made: Cluster, revision: int, generation: int) -> TableFacts:
    return msgspec.structs.replace(made.facts(), revision=Revision(revision), generation=Generation(generation))


def test_R6_revisions_of_another_generation_count_anew(pair: Cluster) -> None:
    """A client that outlives a disaster recovery does not wait for a revision of the history that was lost."""
    known = Known(THREADS)
    known.heard(facts_of(pair, 90, 1))
    known.heard(receipt(Revision(95)))
    known.heard(facts_of(pair, 20, 2))
    assert known.revision == 20
    known.heard(facts_of(pair, 99, 1))
    assert known.revision == 20, "a coordinator that still leads a lost state"
    assert known.needed(Revision(3)).least == 3


def test_a_node_that_has_started_again_does_not_rest() -> None:
    now = [0]
    known = Known(paced(pytest.fail, lambda: now[0]))
    one, two = NodeId(1), NodeId(2)
    known.was_away(one, Incarnation(4))
    assert known.in_turn([(one, Incarnation(4)), (two, Incarnation(1))]) == (two, one)
    assert known.in_turn([(one, Incarnation(5)), (two, Incarnation(1))]) == (one, two)
    now[0] += PLACE_REST_MIN_NS
    assert known.in_turn([(one, Incarnation(4)), (two, Incarnation(1))]) == (one, two)
