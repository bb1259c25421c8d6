"""Clients that go by what a lost state told them, after the cluster went on from an older one: told so, at once."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from leasehold.client.append import stage
from leasehold.client.scan import read_plan
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import TableFacts
from leasehold.errors import Definite, Refused
from leasehold.ids import Generation, Revision
from leasehold.sql.parse import parse
from tests.unit.client.pace import paced
from tests.unit.node.cluster import Cluster, cluster, rows
from tests.unit.node.serving.test_scans import append

SECOND = Generation(7)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    """2,500 rows in one segment on two nodes."""
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        append(made, rows(0, 2500))
        yield made


def test_R6_a_plan_of_a_column_that_was_lost_never_reads_the_one_that_has_its_number_now(pair: Cluster) -> None:
    """Lost `ADD COLUMN b`, new `ADD COLUMN z`: both are field 3 of schema version 2."""
    kept = pair.catalog
    pair.run(parse("ALTER TABLE db.t ADD COLUMN b BIGINT"))
    lost = pair.plan()
    for node in pair.nodes:  # another process, with the vault of the state that was kept
        node.published.view = kept
    pair.catalog = kept
    pair.recovered(SECOND)
    pair.run(parse("ALTER TABLE db.t ADD COLUMN z BIGINT"))
    pair.run(parse("ALTER TABLE db.t ADD COLUMN more BIGINT"))
    assert lost.facts.revision <= pair.catalog.revision
    assert [one.id for one in lost.fields] == [one.id for one in pair.facts().fields[:3]]
    with pytest.raises(Refused) as caught:
        read_plan(lost).read_all()
    assert caught.value.code == "GENERATION_CHANGED"
    assert read_plan(pair.plan()).read_all().column_names == ["k", "v", "z", "more"]


def test_R6_an_append_whose_lookup_tells_of_another_generation_ends(pair: Cluster) -> None:
    """Its transaction's revision lies beyond the state that was kept, so that every node says it is behind."""
    pair.limit(schema_wait_ns=1_000_000)
    facts, transaction = pair.facts(), pair.open()
    pair.recovered(SECOND)
    asked: list[TableFacts] = []

    def refresh() -> TableFacts:
        asked.append(pair.facts())
        return asked[-1]

    ahead = Revision(pair.catalog.revision + 1_000)
    with pytest.raises(Refused) as caught:
        stage(facts, transaction, [rows(0, 5)], ahead, runtime=paced(lambda _: None), refresh=refresh)
    assert caught.value.code == "GENERATION_CHANGED"
    assert len(asked) == 1


def test_R6_spark_tells_it_in_one_line(pair: Cluster) -> None:
    """A DataFrame keeps its plan for every query over it."""
    from leasehold.spark.entry import ClusterEntry
    from leasehold.spark.reader import Asked, InputPartition, LeaseholdReader
    from leasehold.spark.types import spark_schema

    plan = pair.plan()
    pair.recovered(SECOND)
    reader = LeaseholdReader(
        entry=ClusterEntry(address="127.0.0.1:1", tls="", token=None),
        asked=Asked(table="db.t"),
        schema=spark_schema(plan.facts.fields),
    )
    with pytest.raises(Definite) as caught:
        list(reader.read(InputPartition(encode(plan))))
    assert caught.value.code == "GENERATION_CHANGED"
    assert caught.value.text == (
        "db.t: the table was looked up in generation 1 of the cluster, which is generation 7 now [GENERATION_CHANGED];"
        " look the table up again and start over: the cluster was recovered from an older state"
    )
    fresh = msgspec.structs.replace(plan, facts=pair.facts())
    assert sum(batch.num_rows for batch in reader.read(InputPartition(encode(fresh)))) == 2500
