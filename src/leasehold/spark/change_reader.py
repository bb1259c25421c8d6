"""Reading the changes of a table (`client/changes.py`): Spark's planner asks which commits changed rows, tasks compare
the rows."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from leasehold.client.changes import LABELS, changes_schema, pieces, plans_of, read_piece
from leasehold.client.coordinators import Coordinators
from leasehold.client.threads import of_process
from leasehold.core.words.codec import decode_message, encode
from leasehold.core.words.messages import ChangesPlan, CommitChanges, PlanChanges
from leasehold.core.words.records import Field
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.clients import SCAN_PARTITION_BYTES, SCAN_PARTITIONS_MIN
from leasehold.spark.entry import ClusterEntry
from leasehold.spark.errors import readable
from leasehold.spark.reader import rows_of
from leasehold.spark.types import check_readable, spark_schema, spark_type
from leasehold.storage.schema import TIMESTAMP

_KINDS = {pa.string(): "STRING", pa.int64(): "BIGINT", TIMESTAMP: "TIMESTAMP"}


def with_labels(fields: Iterable[Field]) -> StructType:
    """The columns of changes. Raises `Refused` with code BAD_SCHEMA, as `changes_schema`."""
    changes_schema(tuple(fields))
    labels = [StructField(one.name, spark_type(_KINDS[one.type]), one.nullable) for one in LABELS]
    return StructType([*spark_schema(fields).fields, *labels])


def columns_of(schema: StructType) -> StructType:
    """Those of the table. Raises `Refused` with code BAD_SCHEMA for a schema without the others."""
    own, labels = schema.fields[: -len(LABELS)], schema.names[-len(LABELS) :]
    if labels != [one.name for one in LABELS]:
        raise Refused(
            f"changes have the columns {', '.join(one.name for one in LABELS)} after those of the table",
            code=ErrorCode.BAD_SCHEMA,
            hint='leave .schema(..) out; .option("columns", "a, b") chooses columns of the table',
        )
    return StructType(own)


def shares_of(plans: Iterable[ChangesPlan], schema: StructType, table: str) -> list[bytes]:
    """What each task reads, encoded. Raises `Refused` with code BAD_SCHEMA if the columns are others by now."""
    found: list[bytes] = []
    for plan in plans:
        check_readable(columns_of(schema), plan.plan.fields, table=table)
        listed = list(pieces(plan.commits))
        most = min(SCAN_PARTITION_BYTES, sum(map(_size, listed)) // SCAN_PARTITIONS_MIN)
        share: list[CommitChanges] = []
        share_bytes = 0
        for one in listed:
            share.append(one)
            share_bytes += _size(one)
            if share_bytes >= most:
                found.append(encode(msgspec.structs.replace(plan, commits=tuple(share))))
                share, share_bytes = [], 0
        if share:
            found.append(encode(msgspec.structs.replace(plan, commits=tuple(share))))
    return found


def _size(piece: CommitChanges) -> int:
    return sum(one.size_bytes for one in (*piece.added, *piece.taken))


def read_share(share: bytes, schema: StructType, table: str, entry: ClusterEntry) -> Iterator[pa.RecordBatch]:
    """The rows of a share, in a task."""
    plan = decode_message(share)
    assert isinstance(plan, ChangesPlan), "nothing else is encoded here"
    fields = zip(schema.fields, changes_schema(plan.plan.fields), strict=True)
    # Spark compares the first batch with these names and nullability.
    declared = pa.schema([pa.field(column.name, known.type, column.nullable) for column, known in fields])
    known = of_process(plan.plan.facts.cluster_id)
    with readable(table), entry.kept(Coordinators, known) as cluster:
        for piece in plan.commits:
            for batch in read_piece(plan.plan, piece, lambda asked: rows_of(asked, cluster)):
                yield pa.RecordBatch.from_arrays(batch.columns, schema=declared)


class LeaseholdChangesReader(DataSourceReader):
    """The changes that `request` asks for, in the columns of `schema`."""

    def __init__(self, *, entry: ClusterEntry, request: PlanChanges, schema: StructType) -> None:
        self._entry = entry
        self._request = encode(request)
        self._table = request.name
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Pins the commits. Raises as `Table.changes`."""
        from leasehold.client.cluster import Cluster  # noqa: PLC0415 - tasks do not need it

        with readable(self._table), self._entry.connect(Cluster) as cluster:
            request = decode_message(self._request)
            assert isinstance(request, PlanChanges), "it was encoded here"
            columns = tuple(columns_of(self._schema).names)
            plans = plans_of(cluster, msgspec.structs.replace(request, columns=columns))
            shares = shares_of(plans, self._schema, self._table)
            return [InputPartition(one) for one in shares or [b""]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        if partition.value:
            yield from read_share(partition.value, self._schema, self._table, self._entry)
