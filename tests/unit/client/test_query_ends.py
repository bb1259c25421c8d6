"""What bounds and ends a SELECT: memory, interrupts, and rows that are taken away meanwhile."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pytest

from leasehold.client.engine import Prepared, Run
from leasehold.client.query import run_query
from leasehold.core.words.messages import QueryPlan, ScanPlan
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.clients import SCAN_PLANS_MAX
from leasehold.sql.select import read_select
from leasehold.storage.schema import arrow_schema
from tests.unit.client.query_words import MEMORY_BYTES, Tables, planned, read, select


def test_a_reader_that_is_dropped_ends_its_scans_before_all_rows_are_read() -> None:
    tables = Tables(batches=4_000, rows=10_000)
    reader = read(tables, ("db.v", "SELECT `t`.`a` AS `a` FROM `db`.`t` AS `t`", ("a",)))
    assert next(iter(reader)).num_rows > 0
    del reader
    assert tables.ended == tables.opened == 1
    assert tables.served < 4_000


# ---------------------------------------------------------------- bounds


def test_more_memory_than_the_bound_is_refused() -> None:
    tables = Tables(batches=100, rows=10_000)
    with pytest.raises(Refused) as caught:
        select(tables, "SELECT count(DISTINCT concat(x.a, y.a, x.ts)) FROM db.t x, db.t y", memory=16 * 1024 * 1024)
    assert caught.value.code == "QUERY_TOO_LARGE"
    assert "memory_bytes" in caught.value.hint


def test_so_is_more_memory_that_is_needed_after_the_first_rows() -> None:
    text = "SELECT repeat('x', CASE WHEN range > 1000000 THEN 100000 ELSE 1 END) FROM range(1100000)"
    prepared = Prepared(
        text=text, names=("a",), called={}, plans={}, views=(), elsewhere="", memory_bytes=48 * 1024 * 1024
    )
    run = Run(prepared, lambda _plan: pytest.fail("it reads no table"))
    try:
        run.start()
        assert isinstance(run.take(), pa.Schema)
        with pytest.raises(Refused) as caught:
            while run.take() is not None:
                pass
    finally:
        run.stop()
    assert caught.value.code == "QUERY_TOO_LARGE"


def test_an_answer_is_streamed_however_large_it_is() -> None:
    tables = Tables(batches=1_000, rows=10_000)
    answer = select(tables, "SELECT a, ts FROM db.t", memory=32 * 1024 * 1024)
    batches = iter(answer)
    next(batches)
    assert tables.served < 1_000
    assert sum(batch.num_rows for batch in batches) > 9_000_000


@pytest.fixture
def until_gone() -> Callable[[], None]:
    """Who ends a query waits for its thread, but not for ever: on a busy machine it may end a little later.

    A thread of before is not of this test: the rows of its query may lie in a cycle that nobody has collected yet.
    """
    before = threading.enumerate()

    def wait() -> None:
        for one in threading.enumerate():
            if one.name == "query" and one not in before:
                one.join(60)
                assert not one.is_alive()

    return wait


def test_an_interrupt_ends_a_query_at_once(until_gone: Callable[[], None]) -> None:
    tables = Tables(batches=1_000_000_000, rows=1_000)
    reads = threading.Event()

    def interrupt() -> None:
        assert reads.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run_query(
            read_select("SELECT count(*) FROM db.t", cluster=""),
            lambda _names: planned(),
            tables.open,
            MEMORY_BYTES,
            on_read=lambda rows, _of: reads.set() if rows > 10_000 else None,
        )
    until_gone()
    assert tables.ended == tables.opened == 1


def test_a_query_that_reads_no_table_is_ended_too(until_gone: Callable[[], None]) -> None:
    endless = Prepared(
        text="SELECT count(*) FROM range(1000000000000) WHERE hash(range) = 1",
        names=("n",),
        called={},
        plans={},
        views=(),
        elsewhere="",
        memory_bytes=MEMORY_BYTES,
    )
    run = Run(endless, Tables().open)
    run.start()
    run.stop()
    until_gone()


@pytest.mark.parametrize("begins_first", [False, True])
def test_an_interrupt_while_the_thread_begins_ends_it_too(
    monkeypatch: pytest.MonkeyPatch, until_gone: Callable[[], None], *, begins_first: bool
) -> None:
    """Before the thread has begun, and before the thread that started it has heard of that."""
    tables = Tables(batches=1_000_000_000, rows=1_000)
    begun, start = threading.Event(), threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if begins_first:
            start(thread)
            assert begun.wait(60)
        raise KeyboardInterrupt

    def open_and_tell(plan: ScanPlan) -> pa.RecordBatchReader:
        begun.set()
        return tables.open(plan)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_query(
            read_select("SELECT count(*) FROM db.t", cluster=""), lambda _names: planned(), open_and_tell, MEMORY_BYTES
        )
    until_gone()


def test_a_run_that_was_stopped_before_its_thread_began_reads_nothing(until_gone: Callable[[], None]) -> None:
    tables = Tables()
    plans = planned().plans
    table = plans[0]
    prepared = Prepared(
        text='SELECT * FROM "t"',
        names=("n",),
        called={table.facts.name: "t"},
        plans={table.facts.name: table},
        views=(),
        elsewhere="",
        memory_bytes=MEMORY_BYTES,
    )
    run = Run(prepared, tables.open)
    run.stop()
    run.start()
    until_gone()
    assert tables.opened == 0


# ---------------------------------------------------------------- rows that are taken away meanwhile


class Ending:
    """A table whose first so many readers end with ROWS_TAKEN_AWAY, after so many batches."""

    def __init__(self, readers: int, batches: int) -> None:
        self.left = readers
        self.batches = batches
        self.planned = 0

    def plan(self, names: Sequence[str]) -> QueryPlan:
        assert list(names) == ["db.t"]
        self.planned += 1
        return planned()

    def open(self, plan: ScanPlan) -> pa.RecordBatchReader:
        tables = Tables(batches=200, rows=10_000)
        if not self.left:
            return tables.open(plan)
        self.left -= 1

        def batches() -> Iterator[pa.RecordBatch]:
            reader = tables.open(plan)
            for _ in range(self.batches):
                yield reader.read_next_batch()
            raise Refused("rows of db.t were taken away", code=ErrorCode.ROWS_TAKEN_AWAY)

        return pa.RecordBatchReader.from_batches(arrow_schema(plan.fields), batches())


def test_it_is_run_again_where_nothing_was_given_out() -> None:
    for text in ("SELECT sum(a) AS s FROM db.t", "SELECT a AS s FROM db.t"):
        ending = Ending(readers=2, batches=1)
        answer = run_query(read_select(text, cluster=""), ending.plan, ending.open, MEMORY_BYTES)
        assert sum(answer.read_all()["s"].to_pylist()) == sum(range(2_000_000))
        assert ending.planned == 3


def test_it_ends_where_rows_were_given_out() -> None:
    ending = Ending(readers=1, batches=100)
    answer = run_query(read_select("SELECT a FROM db.t", cluster=""), ending.plan, ending.open, MEMORY_BYTES)
    with pytest.raises(Refused) as caught:
        answer.read_all()
    assert (caught.value.code, ending.planned) == ("ROWS_TAKEN_AWAY", 1)


def test_it_is_not_run_again_for_ever() -> None:
    ending = Ending(readers=100, batches=1)
    with pytest.raises(Refused) as caught:
        run_query(read_select("SELECT a FROM db.t", cluster=""), ending.plan, ending.open, MEMORY_BYTES)
    assert (caught.value.code, ending.planned) == ("ROWS_TAKEN_AWAY", SCAN_PLANS_MAX)
