"""UPDATE and MERGE INTO in the SQL of a Spark session."""

from collections.abc import Callable

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from leasehold.client.cluster import Cluster
from leasehold.errors import LeaseholdError
from leasehold.spark import sql, table, updates
from tests.e2e.spark.sorted_rows import expected, rows_of

pytestmark = pytest.mark.spark

Row = tuple[int | None, str | None, float | None]
OLD: list[Row] = [(1, "a", 1.5), (2, "b", 2.5), (3, None, 3.5), (None, "x", None)]
Filled = Callable[[str], str]


@pytest.fixture
def filled(spark: SparkSession, cluster: Cluster) -> Filled:
    def fill(name: str) -> str:
        cluster.sql(f"CREATE TABLE e2e.{name} (k BIGINT, s STRING DEFAULT 'new', v DOUBLE)")
        sql(spark, f"INSERT INTO e2e.{name} VALUES (1, 'a', 1.5), (2, 'b', 2.5), (3, NULL, 3.5), (NULL, 'x', NULL)")
        return f"e2e.{name}"

    return fill


def test_an_update_changes_the_rows_of_its_conditions(spark: SparkSession, filled: Filled) -> None:
    name = filled("updated_sql")
    assert sql(spark, f"UPDATE {name} SET v = v + 1, s = concat(s, '!') WHERE k >= 2").columns == []
    assert rows_of(spark, name) == expected((1, "a", 1.5), (2, "b!", 3.5), (3, None, 4.5), (None, "x", None))
    sql(spark, f"UPDATE {name} AS u SET u.v = CASE WHEN u.k IS NULL THEN 0 ELSE u.k END")
    assert rows_of(spark, name) == expected((1, "a", 1.0), (2, "b!", 2.0), (3, None, 3.0), (None, "x", 0.0))


def test_rows_that_are_updated_need_not_fulfil_the_conditions_any_more(spark: SparkSession, filled: Filled) -> None:
    name = filled("moved_sql")
    for _ in range(2):
        sql(spark, f"UPDATE {name} SET k = k + 10 WHERE k = 1 OR k = 2")
        assert rows_of(spark, name) == expected((11, "a", 1.5), (12, "b", 2.5), *OLD[2:])


def test_an_update_is_planned_again_if_others_change_its_rows(
    spark: SparkSession, cluster: Cluster, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, real, reads = filled("raced_update"), updates.read_table, []

    def read_and_be_late(*given: object, **how: object) -> object:
        found = real(*given, **how)  # pyright: ignore[reportArgumentType]
        if not reads:
            reads.append(1)
            cluster.sql(f"INSERT INTO {name} VALUES (2, 'late', 0.5)")
        return found

    monkeypatch.setattr(updates, "read_table", read_and_be_late)
    sql(spark, f"UPDATE {name} SET v = v * 2 WHERE k = 2")
    assert rows_of(spark, name) == expected(OLD[0], (2, "b", 5.0), (2, "late", 1.0), *OLD[2:])


def test_columns_that_others_rename_meanwhile_are_not_mixed_up(
    spark: SparkSession, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.sql("CREATE TABLE e2e.renamed_meanwhile (k BIGINT, a BIGINT, b BIGINT)")
    sql(spark, "INSERT INTO e2e.renamed_meanwhile VALUES (1, 10, 20)")
    real = updates.read_table

    def read_and_swap(*given: object, **how: object) -> object:
        found = real(*given, **how)  # pyright: ignore[reportArgumentType]
        for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
            cluster.sql(f"ALTER TABLE e2e.renamed_meanwhile RENAME COLUMN {old} TO {new}")
        return found

    monkeypatch.setattr(updates, "read_table", read_and_swap)
    with pytest.raises((PySparkException, LeaseholdError), match="the table was altered"):
        sql(spark, "UPDATE e2e.renamed_meanwhile SET k = k + 1")
    assert [row.asDict() for row in table(spark, "e2e.renamed_meanwhile").collect()] == [{"k": 1, "b": 10, "a": 20}]


def test_merge_into_takes_rows_of_a_table_or_a_select(spark: SparkSession, filled: Filled) -> None:
    name, late = filled("merged_into"), filled("late_sql")
    sql(spark, f"DELETE FROM {late} WHERE k = 1")
    sql(spark, f"INSERT INTO {late} VALUES (5, 'e', 5.5)")
    sql(spark, f"UPDATE {late} SET s = 'L', k = k WHERE k > 0")
    merging = f"MERGE INTO {name} t USING (SELECT * FROM {late} WHERE k IS NOT NULL) AS l ON l.k = t.k"
    sql(spark, f"{merging} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
    assert rows_of(spark, name) == expected(OLD[0], (2, "L", 2.5), (3, "L", 3.5), OLD[3], (5, "L", 5.5))
    sql(
        spark,
        f"MERGE INTO {name} USING (SELECT explode(array(1, 7)) AS k, 0.5 AS more) AS l ON merged_into.k = l.k"
        " WHEN MATCHED THEN UPDATE SET v = merged_into.v + l.more"
        " WHEN NOT MATCHED THEN INSERT (k, v) VALUES (l.k, l.more)",
    )
    assert rows_of(spark, name) == expected(
        (1, "a", 2.0), (2, "L", 2.5), (3, "L", 3.5), OLD[3], (5, "L", 5.5), (7, "new", 0.5)
    )
    spark.sql("SELECT 5 AS k").createOrReplaceTempView("gone")
    sql(spark, f"MERGE INTO {name} USING gone ON merged_into.k = gone.k WHEN MATCHED THEN DELETE")
    assert (5, "L", 5.5) not in rows_of(spark, name)


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("UPDATE e2e.kept SET w = 1", LeaseholdError, "no column w"),
        ("UPDATE e2e.kept SET v = w", AnalysisException, "w"),
        ("UPDATE e2e.kept SET v = s WHERE k = 1", LeaseholdError, "v is string where the table has DOUBLE"),
        ("UPDATE e2e.kept SET v = 1 WHERE k = 1 OR s = 'a'", LeaseholdError, "OR"),
        ("UPDATE e2e.missing SET v = 1", LeaseholdError, "missing"),
        ("MERGE INTO e2e.kept USING e2e.kept l ON kept.k = l.k WHEN MATCHED THEN DELETE", LeaseholdError, "key k"),
        (
            "MERGE INTO e2e.kept USING (SELECT 1 AS k, 2 AS w) l ON kept.k = l.k WHEN MATCHED THEN UPDATE SET *",
            LeaseholdError,
            "no column w",
        ),
        ("MERGE INTO e2e.kept USING nothing ON kept.k = nothing.k WHEN MATCHED THEN DELETE", AnalysisException, "noth"),
    ],
)
def test_what_is_refused_changes_nothing(
    spark: SparkSession, cluster: Cluster, text: str, error: type[Exception], said: str
) -> None:
    cluster.sql("CREATE TABLE IF NOT EXISTS e2e.kept (k BIGINT, s STRING, v DOUBLE)")
    if not cluster.plan("e2e.kept").segments:
        sql(spark, "INSERT INTO e2e.kept VALUES (1, 'a', 1.5), (NULL, 'x', NULL)")
    with pytest.raises(error, match=said):
        sql(spark, text)
    assert rows_of(spark, "e2e.kept") == expected((1, "a", 1.5), (None, "x", None))


def test_other_clients_say_what_runs_them(cluster: Cluster) -> None:
    with pytest.raises(LeaseholdError, match="only Spark runs UPDATE") as caught:
        cluster.sql("UPDATE e2e.any SET a = 1")
    assert "leasehold.spark.sql" in caught.value.hint
