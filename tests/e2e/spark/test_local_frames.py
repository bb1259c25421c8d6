"""Files of segments read by Spark alone: what its settings and its skipping of rows could do to them."""

import datetime as dt
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from leasehold.core.words.messages import Cutoff, FieldFilter, FileColumn, ReadGroup, ReadGroups, ScanPlan, TableFacts
from leasehold.core.words.records import Comparison, DeleteRecord, Field, UseState
from leasehold.ids import FieldId, ObjectId, Revision, SchemaVersion
from leasehold.spark.local_frames import local_frame
from leasehold.storage.schema import arrow_schema, arrow_type
from leasehold.storage.segment_encoder import SegmentEncoder

pytestmark = pytest.mark.spark

CUTOFF = Cutoff(revision=Revision(1), deletes=0)


def field(number: int, kind: str, initial: str | None = None) -> Field:
    return Field(
        id=FieldId(number), name=f"c{number}", type=kind, nullable=True, state=UseState.IN_USE, initial=initial
    )


def write(file: Path, *columns: tuple[Field, list[object]]) -> None:
    """A segment with these columns."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fields = [one for one, _ in columns]
    arrays = [pa.array(values, arrow_type(one.type)) for one, values in columns]
    with file.open("wb") as opened:
        encoder = SegmentEncoder(fields, opened.write)
        encoder.write(pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(fields)))
        encoder.finish()


def planned(
    fields: list[Field],
    *groups: ReadGroup,
    where: tuple[FieldFilter, ...] = (),
    deletes: tuple[DeleteRecord, ...] = (),
    cutoff: Cutoff = CUTOFF,
) -> ScanPlan:
    facts = TableFacts(
        cluster_id="c",
        revision=Revision(1),
        table=ObjectId(1),
        name="db.t",
        schema_version=SchemaVersion(1),
        fields=tuple(fields),
        cluster_by=None,
        buckets=(),
        places=(),
    )
    told = {one.field for delete in deletes for one in delete.where}
    told |= {FieldId(1)} if cutoff.earliest_us is not None else set()
    grouped = ReadGroups(
        groups=groups,
        deletes=deletes,
        clock=FieldId(1) if cutoff.earliest_us is not None else None,
        fields=tuple(one for one in fields if one.id in told),
    )
    return ScanPlan(facts=facts, fields=tuple(fields), segments=(), cutoff=cutoff, where=where, grouped=grouped)


def group(*columns: FileColumn, deletes: tuple[int, ...] = (), may_expire: bool = False) -> ReadGroup:
    return ReadGroup(segments=1, columns=columns, deletes=deletes, may_expire=may_expire)


def stored(number: int, kind: str | None, *, is_opaque: bool = False) -> FileColumn:
    return FileColumn(field=FieldId(number), type=kind, is_opaque=is_opaque)


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    names: list[str] = []

    def put(name: str, value: str) -> None:
        names.append(name)
        spark.conf.set(name, value)

    yield put
    for name in names:
        spark.conf.unset(name)


def test_nan_is_found_though_bounds_leave_it_out(spark: SparkSession, tmp_path: Path) -> None:
    real = field(1, "DOUBLE")
    write(tmp_path / "segment.parquet", (real, [1.0, 2.0, math.nan, -0.0]))
    frame = local_frame(spark, planned([real], group(stored(1, "DOUBLE", is_opaque=True))), [[tmp_path]])
    assert repr(rows(frame.where("c1 > 100"))) == "[(nan,)]"
    assert repr(rows(frame.where("c1 = 'NaN'"))) == "[(nan,)]"
    assert repr(rows(frame.where("c1 <= 0"))) == "[(-0.0,)]"
    blind = local_frame(spark, planned([real], group(stored(1, "DOUBLE"))), [[tmp_path]])
    assert rows(blind.where("c1 > 100")) == [], "why the plan tells where NaN may be"


def test_days_are_found_that_another_calendar_lacks(spark: SparkSession, tmp_path: Path) -> None:
    day, at = field(1, "DATE"), field(2, "TIMESTAMP")
    noon = dt.datetime(1582, 10, 14, 12, tzinfo=dt.UTC)
    write(tmp_path / "segment.parquet", (day, [noon.date(), None]), (at, [noon, None]))
    opaque = planned([day, at], group(stored(1, "DATE", is_opaque=True), stored(2, "TIMESTAMP", is_opaque=True)))
    blind = planned([day, at], group(stored(1, "DATE"), stored(2, "TIMESTAMP")))
    for text in ("c1 >= DATE '1582-10-14'", "c1 = DATE '1582-10-14'", "c2 >= TIMESTAMP '1582-10-14 12:00:00Z'"):
        assert local_frame(spark, opaque, [[tmp_path]]).where(text).count() == 1, text
        assert local_frame(spark, blind, [[tmp_path]]).where(text).count() == 0, (
            "why the plan tells where such days are"
        )


def test_filters_reach_the_files_in_the_stored_type(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    price, count = field(1, "DECIMAL(38,2)"), field(2, "BIGINT")
    before = [(field(1, "DECIMAL(4,2)"), ["1.50", "99.99"]), (field(2, "INT"), [1, 2**31 - 1])]
    write(
        tmp_path / "segment.parquet",
        *((one, [pa.scalar(v).cast(arrow_type(one.type)) for v in values]) for one, values in before),
    )
    plan = planned([price, count], group(stored(1, "DECIMAL(4,2)"), stored(2, "INT")))
    frame = local_frame(spark, plan, [[tmp_path]])
    for text, found in (
        ("c1 > 123456789012345678901234567890.12", 0),
        ("c1 < 123456789012345678901234567890.12", 2),
        ("c1 = 1.50", 1),
        ("c2 < 3000000000", 2),
        ("c2 = 1", 1),
    ):
        assert frame.where(text).count() == found, text
    capsys.readouterr()
    frame.where("c2 = 1").explain()
    assert "EqualTo(`#2`,1)" in capsys.readouterr().out


def test_a_null_that_was_written_is_no_first_value(spark: SparkSession, tmp_path: Path) -> None:
    key, later = field(1, "BIGINT"), field(2, "STRING", initial="it's \\ 漢")
    write(tmp_path / "0" / "old.parquet", (key, [1]))
    write(tmp_path / "1" / "new.parquet", (key, [2, 3]), (later, [None, "x"]))
    folders = [[tmp_path / "0"], [tmp_path / "1"]]
    plan = planned(
        [later, key], group(stored(2, None), stored(1, "BIGINT")), group(stored(2, "STRING"), stored(1, "BIGINT"))
    )
    assert rows(local_frame(spark, plan, folders)) == [("it's \\ 漢", 1), ("x", 3), (None, 2)]
    assert rows(local_frame(spark, plan, folders).where("c2 IS NULL")) == [(None, 2)]
    only = planned([later], group(stored(2, None)))
    assert rows(local_frame(spark, only, [[tmp_path / "0"]])) == [("it's \\ 漢",)]
    assert local_frame(spark, only, [[tmp_path / "0"]]).count() == 1
    assert rows(local_frame(spark, plan, [[], folders[1]])) == [("x", 3), (None, 2)]
    assert rows(local_frame(spark, plan, [[], []])) == []


def test_hidden_rows_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    day, real = field(1, "DATE"), field(2, "DOUBLE")
    days = [dt.date(1970, 1, 1), dt.date(1970, 1, 3), dt.date(1970, 1, 4), None]
    write(tmp_path / "segment.parquet", (day, [*days, dt.date(1970, 1, 9)]), (real, [5.0, 5.0, math.nan, None, 5.0]))
    above = DeleteRecord(
        table=ObjectId(1),
        number=1,
        state=UseState.IN_USE,
        where=(Comparison(field=FieldId(2), operator=">", value="7.0"),),
    )
    columns = stored(1, "DATE"), stored(2, "DOUBLE", is_opaque=True)
    expiring = Cutoff(revision=Revision(1), deletes=1, earliest_us=86_400_000_000 + 1)
    plan = planned([day, real], group(*columns, deletes=(1,), may_expire=True), deletes=(above,), cutoff=expiring)
    left = [(days[1], 5.0), (dt.date(1970, 1, 9), 5.0), (None, None)]
    assert rows(local_frame(spark, plan, [[tmp_path]])) == sorted(left, key=repr)
    plan = planned([day, real], group(*columns), deletes=(above,), cutoff=expiring)
    assert local_frame(spark, plan, [[tmp_path]]).count() == 5, "none may be hidden in this group"


def test_settings_that_lose_rows_or_shift_days_do_not_count(
    spark: SparkSession, setting: Callable[[str, str], None], tmp_path: Path
) -> None:
    setting("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
    setting("spark.sql.files.ignoreMissingFiles", "true")
    setting("spark.sql.files.ignoreCorruptFiles", "true")
    day = field(1, "DATE")
    file = tmp_path / "a" / "segment.parquet"
    write(file, (day, [dt.date(1, 1, 1)] * 1_000))
    plan = planned([day], group(stored(1, "DATE")))
    frame = local_frame(spark, plan, [[file.parent]])
    assert set(rows(frame)) == {(dt.date(1, 1, 1),)}
    later = local_frame(spark, plan, [[file.parent]])
    later._jdf.queryExecution().executedPlan()
    whole = bytearray(file.read_bytes())
    whole[1_000] ^= 1  # one of the days
    file.write_bytes(whole)
    with pytest.raises(Exception, match=r"CRC|checksum"):
        local_frame(spark, plan, [[file.parent]]).collect()
    file.unlink()
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist"):
        later.collect()
