"""MERGE without Spark: what is changed, taken and added, what stays, and what happens if others write meanwhile."""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from leasehold.client import overwrite
from leasehold.client.cluster import Cluster
from leasehold.errors import Definite, LeaseholdError, Refused
from leasehold.limits.clients import REPLACE_ATTEMPTS
from tests.e2e.cluster import RunningCluster
from tests.few import few

pytestmark = pytest.mark.processes

KEYS = 40


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path_factory.mktemp("merges") / "cluster", nodes=2) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: RunningCluster) -> Iterator[Cluster]:
    """A connection, and a database `db` that goes after the test."""
    with running.connect() as connection:
        connection.sql("CREATE DATABASE db")
        connection.sql("CREATE TABLE db.t (k BIGINT, s STRING DEFAULT 'new', n INT) CLUSTERED BY (k) INTO 2 BUCKETS")
        yield connection
        connection.sql("DROP DATABASE db CASCADE")


def rows(*found: tuple[int | None, str | None, int | None]) -> pa.Table:
    k, s, n = zip(*found, strict=True)
    return pa.table({"k": pa.array(k, pa.int64()), "s": pa.array(s, pa.string()), "n": pa.array(n, pa.int32())})


def shown(cluster: Cluster) -> list[tuple[Any, ...]]:
    found = cluster.table("db.t").scan().read_all().to_pylist()
    return sorted((tuple(one.values()) for one in found), key=repr)


@pytest.mark.parametrize("seed", few(2, range(20)))
def test_merges_do_what_a_dictionary_does(cluster: Cluster, seed: int) -> None:
    drawn, table, kept = random.Random(seed), cluster.table("db.t"), dict[int, tuple[str | None, int | None]]()
    for step in range(8):
        keys = drawn.sample(range(KEYS), drawn.randrange(1, 12))
        matched, added = drawn.choice(["update", "delete", "ignore"]), drawn.choice(["insert", "insert", "ignore"])
        has_text = drawn.random() < 0.7
        new = rows(*((key, f"{key} of {step}", step) for key in keys))
        done = table.merge(
            new if has_text else new.drop_columns("s"),
            ["K"],
            when_matched=matched,  # pyright: ignore[reportArgumentType] one of them
            when_not_matched=added,  # pyright: ignore[reportArgumentType] one of them
        )
        there = [key for key in keys if key in kept]
        assert (done.rows_matched, done.rows_added) == (len(there), len(keys) - len(there) if added == "insert" else 0)
        for key in keys:
            text = f"{key} of {step}" if has_text else None
            if key not in kept:
                if added == "insert":
                    kept[key] = (text if has_text else "new", step)
            elif matched == "delete":
                del kept[key]
            elif matched == "update":
                kept[key] = (text if has_text else kept[key][0], step)
        assert shown(cluster) == sorted(((key, *values) for key, values in kept.items()), key=repr)


def test_rows_with_equal_keys_change_together_and_null_is_no_key(cluster: Cluster) -> None:
    table = cluster.table("db.t")
    table.append(rows((1, "a", 1), (1, "b", 2), (None, "c", 3)))
    assert table.merge(rows((1, "x", None), (2, None, 2)), "k").rows_matched == 2
    there = sorted([(1, "x", None), (1, "x", None), (2, None, 2), (None, "c", 3)], key=repr)
    assert shown(cluster) == there
    done = table.merge(rows((1, "x", 1)).slice(1), "k")
    assert (done.rows_matched, done.rows_added, done.segments_replaced) == (0, 0, 0)
    assert shown(cluster) == there


def test_keys_of_several_columns_of_each_exact_type(cluster: Cluster) -> None:
    cluster.sql(
        "CREATE TABLE db.keys (a STRING, b TIMESTAMP, c DATE, d DECIMAL(9,2), e BOOLEAN, f BINARY, g SMALLINT, v INT)"
        " CLUSTERED BY (b) INTO 3 BUCKETS"
    )
    first, day = datetime(1850, 1, 1, tzinfo=UTC), date(1582, 10, 1)
    made = pa.table(
        {
            "a": [f"s{n % 3}'\\" for n in range(100)],
            "b": pa.array(
                [first + timedelta(days=7 * n, microseconds=n) for n in range(100)], pa.timestamp("us", "UTC")
            ),
            "c": [day + timedelta(days=n % 5) for n in range(100)],
            "d": pa.array([Decimal(n) / 4 for n in range(100)], pa.decimal128(9, 2)),
            "e": [n % 2 == 0 for n in range(100)],
            "f": [bytes([n % 7, 255]) for n in range(100)],
            "g": pa.array(range(100), pa.int16()),
            "v": pa.array(range(100), pa.int32()),
        }
    )
    table = cluster.table("db.keys")
    table.append(made)
    changed = made.slice(50).set_column(7, "v", pa.array([-n for n in range(50, 100)], pa.int32()))
    done = table.merge(changed, list("abcdefg"))
    assert (done.rows_matched, done.rows_added) == (50, 0)
    assert sorted(table.scan(["v"]).read_all()["v"].to_pylist()) == sorted([*range(50), *range(-99, -49)])


def test_rows_out_of_the_range_of_the_keys_are_not_read(cluster: Cluster) -> None:
    table = cluster.table("db.t")
    table.append(rows(*((key, "old", key) for key in range(100))))
    table.append(rows(*((key, "old", key) for key in range(1_000, 1_100))))
    assert table.merge(rows((1_050, "new", 0)), "k").segments_replaced <= 2
    assert len(shown(cluster)) == 200


@pytest.mark.parametrize(
    ("new", "how", "code", "said"),
    [
        (rows((1, "x", 1), (1, "y", 2)), {}, "AMBIGUOUS", "k = 1"),
        (rows((None, "x", 1)), {}, "BAD_VALUE", "the key k"),
        (rows((1, "x", 1)), {"on": []}, "BAD_SETTINGS", "without keys"),
        (rows((1, "x", 1)), {"on": ["kk"]}, "NO_SUCH_COLUMN", "no column kk"),
        (rows((1, "x", 1)).drop_columns("k"), {}, "BAD_SETTINGS", "no column k"),
        (rows((1, "x", 1)).append_column("z", [[1]]), {}, "NO_SUCH_COLUMN", "no column z"),
        (rows((1, "x", 1)), {"when_matched": "replace"}, "BAD_SETTINGS", "'replace'"),
        (rows((1, "x", 1)), {"when_not_matched": "update"}, "BAD_SETTINGS", "'update'"),
        (pa.table({"k": [1], "n": ["many"]}), {}, "ROWS_DO_NOT_FIT", "column 'n'"),
        (pa.table({"k": [1], "m": [0.5]}), {"on": ["m"]}, "BAD_SCHEMA", "m, which is DOUBLE"),
    ],
)
def test_what_can_not_be_merged_is_refused_and_changes_nothing(
    cluster: Cluster, new: pa.Table, how: dict[str, Any], code: str, said: str
) -> None:
    cluster.table("db.t").append(rows((1, "a", 10)))
    if code == "BAD_SCHEMA":
        cluster.sql("ALTER TABLE db.t ADD COLUMN m DOUBLE")
    before = [one.id for one in cluster.plan("db.t").segments]  # the nodes that have them may become more
    with pytest.raises(LeaseholdError, match=said) as caught:
        cluster.table("db.t").merge(new, **{"on": ["k"], **how})
    assert caught.value.code == code
    assert caught.value.hint
    assert isinstance(caught.value, Definite)
    assert shown(cluster)[0][:3] == (1, "a", 10)
    assert [one.id for one in cluster.plan("db.t").segments] == before


@pytest.mark.parametrize("times", [1, REPLACE_ATTEMPTS])
def test_a_merge_is_planned_again_if_others_change_its_rows(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    table, begin, begun = cluster.table("db.t"), overwrite.begin_overwrite, list[int]()
    table.append(rows((2, "b", 20)))

    def begin_and_be_late(*given: Any) -> Any:
        """Others write before the rows are read."""
        found = begin(*given)
        if len(begun) < times:
            begun.append(len(begun))
            table.append(rows((2, "late", len(begun))))
        return found

    monkeypatch.setattr(overwrite, "begin_overwrite", begin_and_be_late)
    if times < REPLACE_ATTEMPTS:
        assert table.merge(rows((2, "B", 0)), ["k"]).rows_matched == 2
        assert shown(cluster) == [(2, "B", 0), (2, "B", 0)]
    else:
        with pytest.raises(Refused) as caught:
            table.merge(rows((2, "B", 0)), ["k"])
        assert caught.value.code == "CONFLICT"
        assert shown(cluster) == sorted([(2, "b", 20), *((2, "late", one) for one in range(1, times + 1))], key=repr)


def test_a_merge_is_planned_again_if_its_rows_are_compacted_with_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, begin, begun = cluster.table("db.t"), overwrite.begin_overwrite, list[int]()
    for key in range(KEYS):
        table.append(rows((key, "old", key)))

    def begin_and_be_late(*given: Any) -> Any:
        found = begin(*given)
        if not begun:
            assert cluster.compact("db.t").segments_replaced
        begun.append(1)
        return found

    monkeypatch.setattr(overwrite, "begin_overwrite", begin_and_be_late)
    assert table.merge(rows((2, "new", 0), (4, "new", 0)), ["k"]).rows_matched == 2
    assert len(begun) == 2
    old = [(key, "old", key) for key in range(KEYS) if key not in {2, 4}]
    assert shown(cluster) == sorted([(2, "new", 0), (4, "new", 0), *old], key=repr)
