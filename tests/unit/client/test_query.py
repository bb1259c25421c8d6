"""SELECTs that DuckDB runs over scans, of tables and through views: rows, types, bounds, and what ends them."""

import datetime as dt
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from decimal import Decimal

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from leasehold.client.engine import Prepared, Run
from leasehold.client.query import run_query
from leasehold.client.result import QueryResult
from leasehold.core.words.messages import QueryPlan, ScanPlan, TableFacts, TableNeeded, ViewBody
from leasehold.core.words.records import Field, UseState, ViewColumn
from leasehold.errors import BadSettings, NotFound, Refused
from leasehold.ids import ClusterId, FieldId, ObjectId, Revision, SchemaVersion
from leasehold.limits.clients import SCAN_PLANS_MAX
from leasehold.sql.select import read_select
from leasehold.storage.schema import arrow_schema

CLUSTER = ClusterId("c" * 32)
FIELDS = tuple(
    Field(id=FieldId(number), name=name, type=kind, nullable=True, state=UseState.IN_USE)
    for number, (name, kind) in enumerate((("a", "INT"), ("d", "DECIMAL(10,2)"), ("ts", "TIMESTAMP")), start=1)
)
AT = dt.datetime(2026, 7, 1, 23, 30, tzinfo=dt.UTC)


class Tables:
    """One table of three batches; counts how often it is read, and how many of its readers have ended."""

    def __init__(self, *, ends_with: BaseException | None = None, batches: int = 3, rows: int = 2) -> None:
        self.ends_with = ends_with
        self.rows = rows
        self.count = batches
        self.opened = self.ended = self.served = 0
        self.columns: list[list[str]] = []

    def open(self, plan: ScanPlan) -> pa.RecordBatchReader:
        self.opened += 1
        self.columns.append([field.name for field in plan.fields])
        return pa.RecordBatchReader.from_batches(arrow_schema(plan.fields), self._batches(plan))

    def _batches(self, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(plan.fields)
        try:
            for batch in range(self.count):
                if self.ends_with is not None and batch == 1:
                    raise self.ends_with
                self.served += 1
                first = self.rows * batch
                values = {
                    "a": pa.array(range(first, first + self.rows), pa.int32()),
                    "d": pa.repeat(pa.scalar(Decimal("0.10")), self.rows),
                    "ts": pa.repeat(pa.scalar(AT), self.rows),
                }
                columns = [values[field.name].cast(field.type) for field in schema]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
        finally:
            self.ended += 1


def plan() -> ScanPlan:
    facts = TableFacts(
        cluster_id=CLUSTER,
        revision=Revision(1),
        table=ObjectId(1),
        name="db.T",
        schema_version=SchemaVersion(1),
        fields=FIELDS,
        cluster_by=None,
        buckets=(),
        places=(),
    )
    return ScanPlan(facts=facts, fields=FIELDS, segments=())


def planned(*bodies: tuple[str, str, tuple[str, ...]]) -> QueryPlan:
    """The table, and views with their bodies and columns."""
    views = tuple(
        ViewBody(
            view=ObjectId(number),
            name=name,
            body=body,
            columns=tuple(ViewColumn(name=column, type="") for column in columns),
        )
        for number, (name, body, columns) in enumerate(bodies, start=2)
    )
    needed = (TableNeeded(name="db.T", columns=("a", "d", "ts")),) if bodies else ()
    return QueryPlan(revision=Revision(1), plans=(plan(),), views=views, needed=needed)


MEMORY_BYTES = 256 * 1024 * 1024


def select(
    tables: Tables, text: str, *bodies: tuple[str, str, tuple[str, ...]], memory: int = MEMORY_BYTES
) -> QueryResult:
    """The rows of a SELECT on `db.T` and these views."""

    def plan(names: Sequence[str]) -> QueryPlan:
        for name in names:
            if name.lower() not in {"db.t", *(body[0] for body in bodies)}:
                raise NotFound(f"no table or view {name}")
        return planned(*bodies)

    return run_query(read_select(text, cluster="here:1"), plan, tables.open, memory)


def read(tables: Tables, *bodies: tuple[str, str, tuple[str, ...]]) -> QueryResult:
    """All of the last of these views."""
    return select(tables, bodies[-1][0], *bodies)


def test_columns_have_the_names_of_the_view_in_its_order() -> None:
    body = "SELECT `t`.`a` AS `a`, `t`.`d` * 2 AS `_col_1` FROM `db`.`t` AS `t` WHERE `t`.`a` > 3"
    rows = read(Tables(), ("db.v", body, ("Number", "Twice"))).read_all()
    assert rows.to_pylist() == [{"Number": a, "Twice": Decimal("0.20")} for a in (4, 5)]


def test_a_table_named_twice_is_read_twice_and_whole() -> None:
    tables = Tables()
    body = "SELECT `x`.`a` AS `a` FROM `db`.`t` AS `x` JOIN `db`.`t` AS `y` ON `x`.`a` = `y`.`a` ORDER BY `x`.`a`"
    assert read(tables, ("db.v", body, ("a",))).read_all().to_pydict() == {"a": [0, 1, 2, 3, 4, 5]}
    assert (tables.opened, tables.ended) == (2, 2)


def test_a_view_reads_the_views_before_it() -> None:
    low = ("db.low", "SELECT `t`.`a` AS `a` FROM `db`.`t` AS `t` WHERE `t`.`a` < 4", ("small",))
    top = ("db.top", "SELECT MAX(`low`.`small`) AS `m` FROM `db`.`low` AS `low`", ("m",))
    assert read(Tables(), low, top).read_all().to_pydict() == {"m": [3]}


def test_types_are_those_of_tables_and_integers_end_at_64_bits() -> None:
    body = (
        "SELECT SUM(`t`.`a`) AS `s`, COUNT(*) AS `n`, MAX(`t`.`d`) AS `d`, MAX(`t`.`ts`) AS `ts` FROM `db`.`t` AS `t`"
    )
    reader = read(Tables(), ("db.v", body, ("s", "n", "d", "ts")))
    assert [str(kind) for kind in reader.schema.types] == [
        "int64",
        "int64",
        "decimal128(10, 2)",
        "timestamp[us, tz=UTC]",
    ]
    assert reader.read_all().to_pylist() == [{"s": 15, "n": 6, "d": Decimal("0.10"), "ts": AT}]


def test_a_day_is_a_day_of_utc() -> None:
    body = "SELECT CAST(`t`.`ts` AS DATE) AS `day` FROM `db`.`t` AS `t` LIMIT 1"
    assert read(Tables(), ("db.v", body, ("day",))).read_all().to_pydict() == {"day": [dt.date(2026, 7, 1)]}


def test_what_ends_a_scan_is_raised_as_it_is() -> None:
    dropped = NotFound("view db.v was dropped", code="VIEW_DROPPED")
    for body in ("SELECT `t`.`a` AS `a` FROM `db`.`t` AS `t`", "SELECT SUM(`t`.`a`) AS `a` FROM `db`.`t` AS `t`"):
        with pytest.raises(NotFound) as caught:
            read(Tables(ends_with=dropped), ("db.v", body, ("a",))).read_all()
        assert caught.value is dropped


def test_what_duckdb_says_comes_as_our_error() -> None:
    body = "SELECT CAST('x' AS DECIMAL(38,0)) + NO_SUCH(`t`.`a`) AS `a` FROM `db`.`t` AS `t`"
    with pytest.raises(Refused, match=r"(?i)no_such") as caught:
        read(Tables(), ("db.v", body, ("a",)))
    assert caught.value.code == "NOT_ON_THIS_ENGINE"


def test_a_body_reaches_no_files_and_no_variables_of_this_process(tmp_path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    hidden = pa.table({"a": ["secret"]})
    for source in (f"READ_TEXT('{secret}')", "`hidden`", f"`{secret}`"):
        with pytest.raises(Refused) as caught:
            read(Tables(), ("db.v", f"SELECT * FROM {source}", ("a",))).read_all()
        assert caught.value.code in {"QUERY_FAILED", "NOT_ON_THIS_ENGINE"}
    assert hidden.num_rows == 1


def test_a_reader_that_is_dropped_ends_its_scans_before_all_rows_are_read() -> None:
    tables = Tables(batches=4_000, rows=10_000)
    reader = read(tables, ("db.v", "SELECT `t`.`a` AS `a` FROM `db`.`t` AS `t`", ("a",)))
    assert next(iter(reader)).num_rows > 0
    del reader
    assert tables.ended == tables.opened == 1
    assert tables.served < 4_000


# ---------------------------------------------------------------- what is typed


def test_only_the_columns_that_are_named_are_read() -> None:
    for text, columns in (
        ("SELECT A FROM db.T", ["a"]),
        ("SELECT d + 1 AS e FROM db.t WHERE ts IS NOT NULL", ["d", "ts"]),
        ("SELECT count(*) FROM db.t", ["a"]),  # the narrowest stands for the rows
        ("SELECT * FROM db.t", ["a", "d", "ts"]),
        ("SELECT x.a FROM db.t x WHERE EXISTS (SELECT 1 FROM db.t y WHERE y.d = x.d)", ["a", "d"]),
    ):
        tables = Tables()
        select(tables, text).read_all()
        assert {tuple(one) for one in tables.columns} == {tuple(columns)}, text


def test_columns_are_called_as_they_were_written() -> None:
    answer = select(Tables(), "SELECT count(*), Max(a), A AS `Next`, x.a, x.a + 1 FROM db.t AS x GROUP BY x.a LIMIT 1")
    assert answer.read_all().schema.names == ["COUNT(*)", "MAX(a)", "Next", "a", "x.a + 1"]


def test_the_name_of_a_table_stands_for_its_rows() -> None:
    answer = select(Tables(), " db.T ")
    assert [str(kind) for kind in answer.schema.types] == ["int32", "decimal128(10, 2)", "timestamp[us, tz=UTC]"]
    assert answer.read_all().num_rows == 6


def test_rows_come_in_the_order_that_was_asked_for() -> None:
    tables = Tables(batches=40, rows=10_000)
    numbers = select(tables, "SELECT a FROM db.t ORDER BY a DESC").read_all()["a"].to_pylist()
    assert numbers == list(range(399_999, -1, -1))


def test_a_table_is_read_directly_and_through_a_view_at_once() -> None:
    low = ("db.low", "SELECT `t`.`a` AS `a` FROM `db`.`t` AS `t` WHERE `t`.`a` < 2", ("small",))
    answer = select(Tables(), "SELECT count(*) AS n FROM db.t JOIN db.low ON a >= small", low)
    assert answer.read_all().to_pydict() == {"n": [6 + 5]}


def test_a_select_without_a_table_runs() -> None:
    assert select(Tables(), "SELECT 1 + 1 AS two, 'it''s' AS said").read_all().to_pylist() == [
        {"two": 2, "said": "it's"}
    ]


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("SELECT nope FROM db.t", "NO_SUCH_COLUMN", "column 'nope' at line 1, column 8"),
        ("SELECT aa FROM db.t", "NO_SUCH_COLUMN", "'aa'"),
        ("SELECT q.* FROM db.t", "BAD_STATEMENT", "q"),
        ("SELECT a FROM t", "BAD_IDENTIFIER", "'t'"),
        ("SELECT a\n FROM db.t WHERE", "BAD_STATEMENT", "line 2, column 12"),
        ("SELECT a FROM db.t SORT BY a", "NOT_ON_THIS_ENGINE", "SORT BY"),
        ("SELECT a FROM db.t DISTRIBUTE BY a", "NOT_ON_THIS_ENGINE", "DISTRIBUTE BY"),
        ("SELECT a FROM db.t CLUSTER BY a", "NOT_ON_THIS_ENGINE", "CLUSTER BY"),
        ("SELECT y FROM db.t LATERAL VIEW explode(split('a b', ' ')) q AS y", "NOT_ON_THIS_ENGINE", "LATERAL VIEW"),
        ("SELECT /*+ BROADCAST(t) */ a FROM db.t", "NOT_ON_THIS_ENGINE", "BROADCAST"),
        ("SELECT input_file_name() FROM db.t", "NOT_ON_THIS_ENGINE", "input_file_name"),
        ("SELECT TRANSFORM(a) USING 'cat' AS (b) FROM db.t", "NOT_ON_THIS_ENGINE", "TRANSFORM"),
        ("SELECT schema_of_json('{}') FROM db.t", "NOT_ON_THIS_ENGINE", "schema_of_json"),
        ("SELECT a, count(*) FROM db.t", "QUERY_FAILED", "GROUP BY"),
        ("SELECT sum(9223372036854775807) AS s FROM db.t", "QUERY_FAILED", ""),
    ],
)
def test_what_is_refused_says_why(text: str, code: str, said: str) -> None:
    with pytest.raises(Refused) as caught:
        select(Tables(), text).read_all()
    assert caught.value.code == code
    assert said in caught.value.text
    assert "leasehold_" not in caught.value.text
    assert caught.value.hint


def test_what_only_spark_runs_comes_with_the_line_to_type() -> None:
    with pytest.raises(Refused) as caught:
        select(Tables(), "SELECT a FROM db.T SORT BY a")
    assert caught.value.hint.startswith(
        'in Python: import leasehold.spark; spark = leasehold.spark.session(cluster="here:1");'
        ' leasehold.spark.table(spark, "db.T").createOrReplaceTempView("db_T");'
        " spark.sql('SELECT a FROM db_T SORT BY a').show()"
    )


# ---------------------------------------------------------------- bounds


def test_more_memory_than_the_bound_is_refused() -> None:
    tables = Tables(batches=100, rows=10_000)
    with pytest.raises(Refused) as caught:
        select(tables, "SELECT count(DISTINCT concat(x.a, y.a, x.ts)) FROM db.t x, db.t y", memory=16 * 1024 * 1024)
    assert caught.value.code == "QUERY_TOO_LARGE"
    assert "memory_bytes" in caught.value.hint


def test_an_answer_is_streamed_however_large_it_is() -> None:
    tables = Tables(batches=1_000, rows=10_000)
    answer = select(tables, "SELECT a, ts FROM db.t", memory=32 * 1024 * 1024)
    batches = iter(answer)
    next(batches)
    assert tables.served < 1_000
    assert sum(batch.num_rows for batch in batches) > 9_000_000


def until_gone(name: str) -> None:
    """Who ends a query waits for its thread, but not for ever: on a busy machine it may end a little later."""
    for one in threading.enumerate():
        if one.name == name:
            one.join(60)
            assert not one.is_alive()


def test_an_interrupt_ends_a_query_at_once() -> None:
    tables = Tables(batches=1_000_000_000, rows=1_000)
    begun = threading.Event()
    opened = tables.open

    def open_and_tell(plan: ScanPlan) -> pa.RecordBatchReader:
        begun.set()
        return opened(plan)

    def interrupt() -> None:
        assert begun.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run_query(
            read_select("SELECT count(*) FROM db.t", cluster=""), lambda _names: planned(), open_and_tell, MEMORY_BYTES
        )
    until_gone("query")
    assert tables.ended == tables.opened == 1


def test_a_query_that_reads_no_table_is_ended_too() -> None:
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
    run.stop()
    until_gone("query")


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
            raise Refused("rows of db.t were taken away", code="ROWS_TAKEN_AWAY")

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


# ---------------------------------------------------------------- what others make of it


def test_the_answer_is_a_stream_of_arrow() -> None:
    text = "SELECT a FROM db.t"
    assert pa.table(select(Tables(), text)).num_rows == 6
    assert select(Tables(), text).to_pandas()["a"].tolist() == list(range(6))
    with duckdb.connect() as connection:
        connection.register("answer", select(Tables(), text))
        assert connection.sql("SELECT max(a) FROM answer").fetchall() == [(5,)]
    with select(Tables(), text) as answer:
        answer.close()
        assert answer.read_all().num_rows == 0


def test_polars_makes_a_frame_of_it() -> None:
    frame = select(Tables(), "SELECT a, d, ts FROM db.t").to_polars()
    assert frame.schema == {"a": pl.Int32, "d": pl.Decimal(10, 2), "ts": pl.Datetime("us", "UTC")}
    assert frame["a"].to_list() == list(range(6))
    assert set(frame["d"]) == {Decimal("0.10")}


def test_polars_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(BadSettings) as caught:
        select(Tables(), "SELECT a FROM db.t").to_polars()
    assert caught.value.hint == "pip install polars"


# ---------------------------------------------------------------- nothing but tables is in reach


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM read_text('{secret}')",
        "SELECT read_text('{secret}')",
        "SELECT * FROM '{secret}'",
        "SELECT * FROM `{secret}`",
        "SELECT * FROM csv.`{secret}`",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM pragma_table_info('x')",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM hidden",
        "SELECT getenv('HOME')",
        "SELECT current_setting('memory_limit')",
        "SELECT current_user()",
        "SELECT getvariable('x')",
        "SELECT * FROM query('SELECT 1')",
        "SELECT a FROM db.t; SELECT 1",
        "SELECT a FROM db.t; COPY (SELECT 1) TO '{made}'",
        "WITH x AS (SELECT 1) INSERT INTO db.t SELECT * FROM x",
        "SELECT 1 INTO db.u",
        "COPY (SELECT 1) TO '{made}'",
        "ATTACH '{made}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA database_list",
        "SET memory_limit = '100GB'",
        "EXPORT DATABASE '{made}'",
        "CALL pragma_version()",
    ],
)
def test_a_select_reaches_nothing_but_tables(text: str, tmp_path) -> None:
    (tmp_path / "secret.csv").write_text("word\nsecret\n")
    hidden = pa.table({"a": ["secret"]})
    filled = text.format(secret=tmp_path / "secret.csv", made=tmp_path / "made")
    with pytest.raises(Refused):
        select(Tables(), filled)
    assert hidden.num_rows == 1
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM '{secret}'",
        "SELECT * FROM read_text('{secret}')",
        "COPY (SELECT 1) TO '{made}'",
        "ATTACH '{made}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '100GB'",
        "SET enable_external_access = true",
        "SET temp_directory = '{made}'",
        "RESET lock_configuration",
        "PRAGMA memory_limit = '100GB'",
        "EXPORT DATABASE '{made}'",
        "SELECT * FROM hidden",
        "SELECT getenv('HOME')",
        "SELECT * FROM 'https://example.org/x.parquet'",
    ],
)
def test_duckdb_itself_is_locked_in(text: str, tmp_path) -> None:
    """Whatever text came through the parser."""
    (tmp_path / "secret.csv").write_text("word\nsecret\n")
    hidden = pa.table({"a": ["secret"]})
    filled = text.format(secret=tmp_path / "secret.csv", made=tmp_path / "made")
    prepared = Prepared(
        text=filled, names=("x",), called={}, plans={}, views=(), elsewhere="", memory_bytes=MEMORY_BYTES
    )
    run = Run(prepared, Tables().open)
    with pytest.raises(Refused):
        run.take()
    run.stop()
    assert hidden.num_rows == 1
    assert not (tmp_path / "made").exists()
