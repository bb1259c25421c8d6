"""Reading a table: what Spark's planner pins, and what each task reads of it.

A scan is pinned once: when Spark plans the first query over a loaded DataFrame or a view. Spark keeps that plan for
every later query over it, so they all read the rows of one revision; load it again to see rows that were added since. A
query shows all rows of a later DELETE or none: its tasks ask the leader for one cutoff (`core/data/cutoff.py`), by the
id that Spark gives the query.

A read of the present (`leasehold.spark.attach`) is planned for each query anew, at one revision for all of its tasks.

Each Python worker loads this module anew, so it imports no more than tasks need.
"""

import hashlib
import heapq
import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from leasehold.client.coordinators import Coordinators
from leasehold.client.past import AsOf
from leasehold.client.scan import read_segments
from leasehold.client.threads import of_process, places_of
from leasehold.core.data.cutoff import rows_taken_away
from leasehold.core.data.scan import together
from leasehold.core.membership.identity import node_login
from leasehold.core.words.codec import decode_message, encode
from leasehold.core.words.messages import Filter, ScanPlan
from leasehold.core.words.records import Field, SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound, Refused
from leasehold.ids import ObjectId
from leasehold.limits.clients import SCAN_PARTITION_BYTES, SCAN_PARTITIONS_MAX, SCAN_PARTITIONS_MIN
from leasehold.spark.entry import ClusterEntry
from leasehold.spark.errors import readable
from leasehold.spark.types import check_readable, select_fields
from leasehold.storage.schema import arrow_type

JOB_TAGS: Final = "spark.job.tags"
QUERY_TAG: Final = re.compile(r"spark-session-[0-9a-f-]{36}-execution-root-id-[0-9]+")
"""The tag that Spark gives all jobs of one query; the session's part is random."""
PLANS_KEPT: Final = 4
"""By one Python worker."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a read asks for."""

    table: str
    columns: tuple[str, ...] | None = None
    """In this order; None for all."""
    where: tuple[Filter, ...] = ()
    as_of: AsOf | None = None
    through: tuple[ObjectId, ...] = ()
    plan: bytes | None = None
    """The encoded plan, if there is one already."""
    shares: int = 0
    """In how many shares each query reads the present; 0 if the read is planned once."""


class _Share(InputPartition):
    """A share of what a query reads, whose revision its tasks agree on; `value` is a plan without segments."""

    def __init__(self, value: bytes, number: int) -> None:
        super().__init__(value)
        self.number = number


_PLANNED: Final[dict[tuple[object, ...], ScanPlan]] = {}
"""The plans of the last queries that tasks of this process have planned."""


class LeaseholdReader(DataSourceReader):
    """Reads the columns of a declared schema: the table's own, or the subset that `.schema(..)` gave.

    It takes no filters of Spark (`pushFilters`). PySpark 4.3 keeps one planned read for each DataFrame: one that lacks
    rows by the filter of a query would be the read of all others too, so they would lack these rows.

    For the same reason a read that shows each query the present (`shares`) is planned by its tasks: all tasks of a
    query agree on a revision, and each takes its share of the segments that the table has there.
    """

    def __init__(self, *, entry: ClusterEntry, asked: Asked, schema: StructType) -> None:
        self._entry = entry
        self._asked = asked
        self._name = asked.table
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Pins the revision; each partition is the encoded plan of a share of the segments. At least one.

        Raises `NotFound` for a table or columns that are not there, `Refused` (BAD_SCHEMA) for columns of other types.
        """
        with readable(self._name), self._entry.connect(Coordinators) as cluster:
            plan = planned(cluster, msgspec.structs.replace(self._asked, columns=tuple(self._schema.names)))
            check_readable(self._schema, plan.fields, table=self._name)
            if self._asked.shares:
                base = encode(msgspec.structs.replace(plan, segments=()))
                return [_Share(base, number) for number in range(self._asked.shares)]
            shares = share_out(plan.segments) or [()]
            return [InputPartition(encode(msgspec.structs.replace(plan, segments=share))) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, in exactly the declared schema; a timestamp is `timestamp[us, tz=UTC]`."""
        plan = decoded(partition.value)
        known = of_process(plan.facts.cluster_id)
        with readable(self._name), self._entry.kept(Coordinators, known) as cluster:
            if isinstance(partition, _Share):
                plan = self._present(plan, partition.number, cluster)
            elif self._asked.plan is None:  # else what is read beside it has the plan's cutoff too
                plan = _as_of_this_query(plan, cluster)
            yield from read_rows(plan, self._schema, cluster)

    def _present(self, base: ScanPlan, number: int, cluster: Coordinators) -> ScanPlan:
        """A share of the plan of the revision that the tasks of this query have agreed on; outside of a query, of the
        revision at which the read was planned."""
        query = _query()
        key = (base.facts.cluster_id, base.facts.table, query, encode(base))
        plan = _PLANNED.get(key)
        if plan is None:
            agreed = base.cutoff if query is None else cluster.agree_cutoff(base, query)
            revision = base.facts.revision if query is None or agreed is None else agreed.pinned
            asked = msgspec.structs.replace(self._asked, columns=tuple(self._schema.names), as_of=int(revision))
            found = planned(cluster, asked)
            if found.facts.table != base.facts.table:
                raise Refused(
                    f"table {self._name} was dropped, and made anew",
                    code=ErrorCode.TABLE_DROPPED,
                    hint="attach the tables again",
                )
            check_readable(self._schema, found.fields, table=self._name)
            plan = msgspec.structs.replace(found, cutoff=agreed)
            while len(_PLANNED) >= PLANS_KEPT:
                del _PLANNED[next(iter(_PLANNED))]
            _PLANNED[key] = plan
        shares = share_out(plan.segments, self._asked.shares)
        return msgspec.structs.replace(plan, segments=shares[number] if number < len(shares) else ())


def read_rows(plan: ScanPlan, schema: StructType, cluster: Coordinators) -> Iterator[pa.RecordBatch]:
    """The rows of a plan, in exactly the declared schema; a timestamp is `timestamp[us, tz=UTC]`."""
    pairs = zip(schema.fields, plan.fields, strict=True)
    # Spark compares the first batch with these names and nullability.
    declared = pa.schema([pa.field(column.name, arrow_type(field.type), column.nullable) for column, field in pairs])
    return (_declared(batch, declared) for batch in rows_of(plan, cluster))


def rows_of(plan: ScanPlan, cluster: Coordinators) -> Iterator[pa.RecordBatch]:
    """The rows of a plan as nodes send them."""
    places = places_of(plan.facts, cluster.looking_again(plan.facts), known=cluster.known)
    for some in together(plan.segments):
        yield from read_segments(plan, some, places=places, login=node_login(cluster.token), tls=cluster.tls)


def fields_of(cluster: Coordinators, asked: Asked) -> tuple[Field, ...]:
    """The columns of a read. Raises also what is wrong with its conditions and its revision."""
    if asked.where or asked.as_of is not None or asked.plan is not None:
        return planned(cluster, asked).fields
    facts = cluster.facts(asked.table)
    return facts.fields if asked.columns is None else select_fields(asked.columns, facts.fields, table=facts.name)


def planned(cluster: Coordinators, asked: Asked, *, grouped: bool = False) -> ScanPlan:
    """The plan of a read; `grouped` as in `Coordinators.plan`."""
    if asked.plan is not None:
        return decoded(asked.plan)
    try:
        return cluster.plan(
            asked.table, asked.columns, through=asked.through, where=asked.where, as_of=asked.as_of, grouped=grouped
        )
    except NotFound:
        if asked.columns is not None and asked.as_of is None:  # says all that is wrong with them
            select_fields(asked.columns, cluster.facts(asked.table).fields, table=asked.table)
        raise


def share_out(segments: Sequence[SegmentRecord], wanted: int | None = None) -> list[tuple[SegmentRecord, ...]]:
    """Segments in shares of about equal size, none empty, largest first; not more than there are segments.

    By default about SCAN_PARTITION_BYTES each, but at least SCAN_PARTITIONS_MIN shares, so that several cores read a
    small table, and at most SCAN_PARTITIONS_MAX.
    """
    if wanted is None:
        total_bytes = sum(one.size_bytes for one in segments)
        wanted = min(max(SCAN_PARTITIONS_MIN, -(-total_bytes // SCAN_PARTITION_BYTES)), SCAN_PARTITIONS_MAX)
    count = min(wanted, len(segments))
    shares: list[list[SegmentRecord]] = [[] for _ in range(count)]
    lightest = [(0, number) for number in range(count)]
    for segment in sorted(segments, key=lambda one: (-one.size_bytes, one.id)):
        size_bytes, number = lightest[0]
        shares[number].append(segment)
        heapq.heapreplace(lightest, (size_bytes + segment.size_bytes, number))
    return [tuple(share) for share in shares]


def _as_of_this_query(plan: ScanPlan, cluster: Coordinators) -> ScanPlan:
    """The plan of a frame with the one cutoff of all tasks of the query.

    Outside of a query (`DataFrame.rdd`) the plan keeps its cutoff, so after a DELETE such a frame must be loaded again.
    """
    query = _query()
    if query is None or plan.cutoff is None:
        return plan
    agreed = cluster.agree_cutoff(plan, query)
    if agreed.deletes < plan.cutoff.deletes:
        raise rows_taken_away(plan.facts.name, "rows were deleted")  # its files may lack them already
    facts = msgspec.structs.replace(plan.facts, revision=max(plan.facts.revision, agreed.revision))
    return msgspec.structs.replace(plan, facts=facts, cutoff=agreed)


def _query() -> str | None:
    """The id of the query that this task is of, in hex; None outside of a query (`DataFrame.rdd`)."""
    task = TaskContext.get()
    tags = (None if task is None else task.getLocalProperty(JOB_TAGS)) or ""
    query = next((one for one in tags.split(",") if QUERY_TAG.fullmatch(one)), None)
    return None if query is None else hashlib.sha256(query.encode()).hexdigest()[:32]


def decoded(encoded: bytes) -> ScanPlan:
    """The plan in a partition or an option."""
    plan = decode_message(encoded)
    assert isinstance(plan, ScanPlan), "nothing else is encoded here"
    return plan


def _declared(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if not schema.names:
        return batch.replace_schema_metadata(None)  # rows without columns: their number is all there is
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
