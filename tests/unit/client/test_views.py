"""Views that DuckDB runs over scans: rows, types, and what ends them."""

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest

from leasehold.client.views import read_view
from leasehold.core.messages import ScanPlan, TableFacts, TableNeeded, ViewBody, ViewFacts
from leasehold.core.records import Field, UseState, ViewColumn
from leasehold.errors import NotFound, Refused
from leasehold.ids import ClusterId, FieldId, ObjectId, Revision, SchemaVersion
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

    def open(self, plan: ScanPlan) -> pa.RecordBatchReader:
        self.opened += 1
        return pa.RecordBatchReader.from_batches(arrow_schema(plan.fields), self._batches(plan))

    def _batches(self, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(plan.fields)
        try:
            for batch in range(self.count):
                if self.ends_with is not None and batch == 1:
                    raise self.ends_with
                self.served += 1
                first = self.rows * batch
                numbers = pa.array(range(first, first + self.rows), pa.int32())
                others = [pa.repeat(pa.scalar(value), self.rows) for value in (Decimal("0.10"), AT)]
                columns = [one.cast(kind) for one, kind in zip((numbers, *others), schema.types, strict=True)]
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


def view(*bodies: tuple[str, str, tuple[str, ...]]) -> ViewFacts:
    views = tuple(
        ViewBody(
            view=ObjectId(number),
            name=name,
            body=body,
            columns=tuple(ViewColumn(name=column, type="") for column in columns),
        )
        for number, (name, body, columns) in enumerate(bodies, start=2)
    )
    table = TableNeeded(name="db.T", columns=("a", "d", "ts"))
    return ViewFacts(cluster_id=CLUSTER, revision=Revision(1), views=views, tables=(table,))


def read(tables: Tables, *bodies: tuple[str, str, tuple[str, ...]]) -> pa.RecordBatchReader:
    return read_view(view(*bodies), {"db.T": plan()}, tables.open)


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
    assert caught.value.code == "VIEW_FAILED"


def test_a_body_reaches_no_files_and_no_variables_of_this_process(tmp_path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    hidden = pa.table({"a": ["secret"]})
    for source in (f"READ_TEXT('{secret}')", "`hidden`", f"`{secret}`"):
        with pytest.raises(Refused) as caught:
            read(Tables(), ("db.v", f"SELECT * FROM {source}", ("a",))).read_all()
        assert caught.value.code in {"VIEW_FAILED", "NOT_ON_THIS_ENGINE"}
    assert hidden.num_rows == 1


def test_a_reader_that_is_dropped_ends_its_scans_before_all_rows_are_read() -> None:
    tables = Tables(batches=4_000, rows=10_000)
    reader = read(tables, ("db.v", "SELECT `t`.`a` AS `a` FROM `db`.`t` AS `t`", ("a",)))
    assert reader.read_next_batch().num_rows > 0
    del reader
    assert tables.ended == tables.opened == 1
    assert tables.served < 4_000
