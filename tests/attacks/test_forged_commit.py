"""A user with INSERT commits what no node has said: each forgery is refused, and the table is read as before."""

from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pytest

from leasehold.client.append import stage
from leasehold.client.cluster import Cluster
from leasehold.core.membership.identity import node_login
from leasehold.core.words.messages import SegmentHolder, StagedSegment, TableFacts
from leasehold.core.words.records import ColumnStatistics
from leasehold.errors import Refused
from leasehold.ids import SegmentId, TransactionId
from leasehold.wire.entropy import SystemEntropy
from tests.attacks.ground import ROOT, ROWS, TABLE, WRITER, Ground

pytestmark = pytest.mark.processes

ROUNDS = 2
"""Of all forgeries, at scale 1."""
FORGED = pa.table({"a": [7_000_001, 7_000_002], "b": ["forged", "forged"]})


def test_what_no_node_has_said_is_not_committed(ground: Ground, scale: int) -> None:
    with ground.connect(WRITER) as writer, ground.connect(ROOT) as root:
        accepted: list[str] = []
        with ground.attacked():
            for _ in range(ROUNDS * scale):
                accepted.extend(attack(writer))
        assert accepted == []
        rows = root.table(TABLE).scan().read_all()
        assert rows.num_rows >= ROWS, "the table is read as before"
        assert "forged" not in rows["b"].to_pylist()
        writer.table(TABLE).append(FORGED.set_column(1, "b", [["said", "said"]]))
        assert root.table(TABLE).scan().read_all()["b"].to_pylist().count("said") >= FORGED.num_rows


def attack(writer: Cluster) -> list[str]:
    """Tries all forgeries, each in a write transaction of its own; says which were accepted."""
    facts = writer.facts(TABLE)
    earlier, answered = staged(writer, facts)
    writer.abort(facts.cluster_id, earlier)
    made_up = {
        "made up": invented(facts),
        "made up with many rows": msgspec.structs.replace(invented(facts), rows=2**30),
    }
    accepted: list[str] = []
    for what, forge in [*((name, None) for name in made_up), *((name, name) for name in FORGERIES)]:
        transaction, honest = (opened(writer, facts), ()) if forge is None else staged(writer, facts)
        forged = renamed(made_up[what], transaction) if forge is None else changed(what, honest[0], answered[0])
        try:
            writer.commit(facts.cluster_id, transaction, [forged, *honest[1:]])
        except Refused as error:
            assert error.code in {"BAD_SEAL", "BAD_SEGMENT", "TOO_FEW_HOLDERS"}, (what, error.code)
            writer.abort(facts.cluster_id, transaction)
        else:
            accepted.append(what)
    return accepted


def opened(writer: Cluster, facts: TableFacts) -> TransactionId:
    transaction = writer.new_transaction()
    writer.open_transaction(facts, transaction)
    return transaction


def staged(writer: Cluster, facts: TableFacts) -> tuple[TransactionId, tuple[StagedSegment, ...]]:
    """What the nodes answer to rows that they have got."""
    transaction = writer.new_transaction()
    revision = writer.open_transaction(facts, transaction).revision
    return transaction, stage(facts, transaction, [*FORGED.to_batches()], revision, login=node_login(writer.token))


def invented(facts: TableFacts) -> StagedSegment:
    """A segment that is nowhere, of holders that a client knows of."""
    incarnations = {one.node: one.incarnation for one in facts.places}
    bucket = facts.buckets[0]
    return StagedSegment(
        id=SegmentId(""),
        table=facts.table,
        bucket=bucket.bucket,
        schema_version=facts.schema_version,
        rows=10,
        size_bytes=1_000,
        sha256=b"h" * 32,
        statistics=(),
        holders=tuple(SegmentHolder(node=node, incarnation=incarnations[node]) for node in bucket.replicas),
    )


def renamed(segment: StagedSegment, transaction: TransactionId) -> StagedSegment:
    return msgspec.structs.replace(segment, id=SegmentId(f"{transaction}-{SystemEntropy().hex_128()}"))


FORGERIES = (
    "renamed",
    "more rows",
    "another hash",
    "another size",
    "narrow statistics",
    "no statistics",
    "another bucket",
    "a holder that has not sealed",
    "no seals",
    "seals of another transaction",
    "an answer in another transaction",
)


def changed(what: str, honest: StagedSegment, earlier: StagedSegment) -> StagedSegment:
    """The honest answer, or one to an earlier write, as a forger would like it."""
    match what:
        case "renamed":
            return msgspec.structs.replace(honest, id=SegmentId(f"{honest.id[:33]}{'0' * 32}"))
        case "more rows":
            return msgspec.structs.replace(honest, rows=honest.rows + 1)
        case "another hash":
            return msgspec.structs.replace(honest, sha256=b"h" * 32)
        case "another size":
            return msgspec.structs.replace(honest, size_bytes=honest.size_bytes + 1)
        case "narrow statistics":
            return msgspec.structs.replace(honest, statistics=tuple(narrow(honest)))
        case "no statistics":
            return msgspec.structs.replace(honest, statistics=())
        case "another bucket":
            return msgspec.structs.replace(honest, bucket=1 - honest.bucket)
        case "a holder that has not sealed":
            first, second = honest.holders
            return msgspec.structs.replace(honest, holders=(first, msgspec.structs.replace(second, seal=first.seal)))
        case "no seals":
            bare = tuple(msgspec.structs.replace(one, seal=b"") for one in honest.holders)
            return msgspec.structs.replace(honest, holders=bare)
        case "seals of another transaction":
            return msgspec.structs.replace(honest, holders=earlier.holders)
        case _:
            return msgspec.structs.replace(earlier, id=honest.id)


def narrow(segment: StagedSegment) -> Iterator[ColumnStatistics]:
    """Statistics by which no DELETE of these rows would ever find them."""
    for one in segment.statistics:
        is_number = isinstance(one.minimum, int)
        bound = 1 if is_number else "a"
        yield msgspec.structs.replace(one, minimum=bound, maximum=bound)
