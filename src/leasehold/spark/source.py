"""`format("leasehold")`: a data source of Spark (PySpark 4.3, `pyspark.sql.datasource`).

Spark makes the source, the reader and the writer in a Python process beside the driver and pickles them from there to
the workers. So they carry only plain values: names, numbers, and encoded messages.

A scan is pinned once: when Spark plans the first query over a loaded DataFrame or a view. Spark keeps that plan for
every later query over it, so they all read the rows of one revision; load it again to see rows that were added since. A
query shows all rows of a later DELETE or none: its tasks ask the leader for one cutoff (`core/data/cutoff.py`), by the
id that Spark gives the query.
"""

import hashlib
import heapq
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from leasehold.client.cluster import Cluster
from leasehold.client.coordinators import aborted_on_error
from leasehold.client.credentials import find_credentials
from leasehold.client.locate import TARGET_DEFAULT
from leasehold.client.scan import read_segment
from leasehold.client.threads import of_process, places_of
from leasehold.core.data.cutoff import rows_taken_away
from leasehold.core.words.codec import decode_message, encode
from leasehold.core.words.messages import ScanPlan
from leasehold.core.words.records import Field, SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.clients import SCAN_PARTITION_BYTES, SCAN_PARTITIONS_MAX, SCAN_PARTITIONS_MIN
from leasehold.spark.entry import ClusterEntry, entry_for
from leasehold.spark.options import (
    CLUSTER_OPTION,
    CREDENTIALS_OPTION,
    PASSWORD_OPTION,
    USER_OPTION,
    WRITING,
    Asked,
    check_names,
    table_of,
)
from leasehold.spark.options import asked as asked_by
from leasehold.spark.sink import LeaseholdSink, readable
from leasehold.spark.types import check_readable, check_writable, select_fields, spark_schema
from leasehold.storage.schema import arrow_type

FORMAT: Final = "leasehold"
CLUSTER_VARIABLE: Final = "LEASEHOLD_CLUSTER"
JOB_TAGS: Final = "spark.job.tags"
QUERY_TAG: Final = re.compile(r"spark-session-[0-9a-f-]{36}-execution-root-id-[0-9]+")
"""The tag that Spark gives all jobs of one query; the session's part is random."""
HOST_AND_PORT: Final = re.compile(r"[^/]+:[0-9]+")


class LeaseholdSource(DataSource):
    """A table, by the options `table` (`database.table`) and `cluster` (a directory, or host:port of coordinators).

    A read takes `columns` (names with commas between them), `where` (conditions, as `client.cluster.Table.scan`) and
    `asOfRevision`.
    Without `cluster` it is the session's cluster, else $LEASEHOLD_CLUSTER, else `leasehold-data`. If the cluster has
    users, `user` and `password` log in, else the token in the file `credentials`, which is by default the session's or
    $LEASEHOLD_CREDENTIALS, else $LEASEHOLD_USER and $LEASEHOLD_PASSWORD. Workers get a login for this read or write
    alone, never the password, the token in the file, or the user's own login.
    """

    default_cluster: ClassVar[str | None] = None
    default_credentials: ClassVar[str | None] = None
    application: ClassVar[bytes] = b""
    """The hash of the secret with which the session's driver renews logins; empty for a source without a session."""
    passwords: ClassVar[Mapping[tuple[str, str], str]] = {}
    """Those that the session was given, by cluster and user."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(..)`."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns that are read, as of now or of the revision that is asked for."""
        asked = self._asked()
        with readable(asked.table), self._cluster() as cluster:
            return spark_schema(fields_of(cluster, asked))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns of `schema`."""
        asked = self._asked()
        with readable(asked.table), self._cluster() as cluster:
            entry = entry_for(
                cluster, cluster.facts(asked.table).table, through=asked.through, application=self._application()
            )
            return LeaseholdReader(entry=entry, asked=asked, schema=schema)

    def writer(self, schema: StructType, overwrite: bool) -> LeaseholdSink:
        """Opens a write transaction, once per write, before any task runs.

        Raises `Refused`: OVERWRITE, or ROWS_DO_NOT_FIT with every column that does not.
        """
        with readable(table := self._table()), self._cluster() as cluster:
            if overwrite:
                raise Refused(
                    "rows can be added to a table, but not replaced",
                    code=ErrorCode.OVERWRITE,
                    hint='write with mode("append"), or DROP and CREATE the table first',
                )
            facts = cluster.facts(table)
            check_writable(schema, facts.fields, table=facts.name)
            transaction = cluster.new_transaction()
            opened = cluster.open_transaction(facts, transaction)
            with aborted_on_error(cluster, facts, transaction):
                entry = entry_for(cluster, facts.table, application=self._application(), transaction=transaction)
            return LeaseholdSink(
                entry=entry,
                facts=encode(facts),
                transaction=transaction,
                revision=max(opened.revision, entry.revision),
            )

    def _asked(self) -> Asked:
        with readable(FORMAT):
            return asked_by(self.options)

    def _table(self) -> str:
        with readable(FORMAT):
            check_names(self.options, WRITING)
            return table_of(self.options)

    def _cluster(self) -> Cluster:
        target, user = self._target(), self.options.get(USER_OPTION)
        password = self.options.get(PASSWORD_OPTION) or self.passwords.get((target, user or ""))
        return Cluster(target, user=user, password=password, credentials=self._credentials())

    def _credentials(self) -> str | None:
        return self.options.get(CREDENTIALS_OPTION) or self.default_credentials

    def _application(self) -> bytes:
        """Of the driver, which renews the logins at the clusters of its sessions and at no other."""
        return self.application if self._target() == self.default_cluster else b""

    def _target(self) -> str:
        """Asked only where Spark plans: workers have other working directories, and may be on other machines."""
        return self.options.get(CLUSTER_OPTION) or self.default_cluster or default_cluster(self._credentials())


def default_cluster(credentials: str | None) -> str:
    """The cluster of a session without one: that of the file of credentials, if there is one."""
    file = find_credentials(credentials)
    return os.environ.get(CLUSTER_VARIABLE) or TARGET_DEFAULT if file is None else file.address


def anchored(target: str | Path) -> str:
    """`target` for any working directory: addresses as they are, a directory as an absolute path."""
    text = str(target)
    return text if HOST_AND_PORT.fullmatch(text) else str(Path(text).absolute())


def bound_to(
    cluster: str, credentials: str | None, known_passwords: Mapping[tuple[str, str], str], application_id: bytes
) -> type[LeaseholdSource]:
    """The source with the cluster, the file of credentials, the passwords and the application of a session. It is a new
    class, so that Spark pickles it whole."""

    class BoundSource(LeaseholdSource):
        """A `LeaseholdSource` whose session names the cluster."""

        default_cluster = cluster
        default_credentials = credentials
        application = application_id
        passwords: ClassVar = dict(known_passwords)

    return BoundSource


class LeaseholdReader(DataSourceReader):
    """Reads the columns of a declared schema: the table's own, or the subset that `.schema(..)` gave.

    It takes no filters of Spark (`pushFilters`). PySpark 4.3 keeps one planned read for each DataFrame: one that lacks
    rows by the filter of a query would be the read of all others too, so they would lack these rows.
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
        with readable(self._name), self._entry.connect() as cluster:
            plan = planned(cluster, msgspec.structs.replace(self._asked, columns=tuple(self._schema.names)))
            check_readable(self._schema, plan.fields, table=self._name)
            shares = share_out(plan.segments) or [()]
            return [InputPartition(encode(msgspec.structs.replace(plan, segments=share))) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, in exactly the declared schema; a timestamp is `timestamp[us, tz=UTC]`."""
        plan = decode_message(partition.value)
        assert isinstance(plan, ScanPlan), "partitions() made it"
        known = of_process(plan.facts.cluster_id)
        with readable(self._name), self._entry.connect(known) as cluster:
            plan = _as_of_this_query(plan, cluster)
            schema = self._arrow_schema(plan)
            places = places_of(plan.facts, cluster.looking_again(plan.facts), known=cluster.known)
            for segment in plan.segments:
                for batch in read_segment(plan, segment, places=places, login=cluster.token, tls=cluster.tls):
                    yield _declared(batch, schema)

    def _arrow_schema(self, plan: ScanPlan) -> pa.Schema:
        """The schema that Spark compares the first batch with: the declared names and nullability."""
        pairs = zip(self._schema.fields, plan.fields, strict=True)
        return pa.schema([pa.field(column.name, arrow_type(field.type), column.nullable) for column, field in pairs])


def fields_of(cluster: Cluster, asked: Asked) -> tuple[Field, ...]:
    """The columns of a read. Raises also what is wrong with its conditions and its revision."""
    if asked.where or asked.as_of is not None:
        return planned(cluster, asked).fields
    facts = cluster.facts(asked.table)
    return facts.fields if asked.columns is None else select_fields(asked.columns, facts.fields, table=facts.name)


def planned(cluster: Cluster, asked: Asked) -> ScanPlan:
    """The plan of a read."""
    if asked.columns is not None and asked.as_of is None:
        select_fields(asked.columns, cluster.facts(asked.table).fields, table=asked.table)
    return cluster.plan(asked.table, asked.columns, through=asked.through, where=asked.where, as_of=asked.as_of)


def share_out(segments: Sequence[SegmentRecord]) -> list[tuple[SegmentRecord, ...]]:
    """Segments in shares of about equal size, none empty, largest first.

    About SCAN_PARTITION_BYTES each, but at least SCAN_PARTITIONS_MIN shares if there are as many segments, so that
    several cores read a small table, and at most SCAN_PARTITIONS_MAX.
    """
    total_bytes = sum(one.size_bytes for one in segments)
    wanted = max(SCAN_PARTITIONS_MIN, -(-total_bytes // SCAN_PARTITION_BYTES))
    count = min(wanted, len(segments), SCAN_PARTITIONS_MAX)
    shares: list[list[SegmentRecord]] = [[] for _ in range(count)]
    lightest = [(0, number) for number in range(count)]
    for segment in sorted(segments, key=lambda one: (-one.size_bytes, one.id)):
        size_bytes, number = lightest[0]
        shares[number].append(segment)
        heapq.heapreplace(lightest, (size_bytes + segment.size_bytes, number))
    return [tuple(share) for share in shares]


def _as_of_this_query(plan: ScanPlan, cluster: Cluster) -> ScanPlan:
    """The plan of a frame with the one cutoff of all tasks of the query.

    Outside of a query (`DataFrame.rdd`) the plan keeps its cutoff, so after a DELETE such a frame must be loaded again.
    """
    task = TaskContext.get()
    tags = (None if task is None else task.getLocalProperty(JOB_TAGS)) or ""
    query = next((one for one in tags.split(",") if QUERY_TAG.fullmatch(one)), None)
    if query is None or plan.cutoff is None:
        return plan
    agreed = cluster.agree_cutoff(plan, hashlib.sha256(query.encode()).hexdigest()[:32])
    if agreed.deletes < plan.cutoff.deletes:
        raise rows_taken_away(plan.facts.name, "rows were deleted")  # its files may lack them already
    facts = msgspec.structs.replace(plan.facts, revision=max(plan.facts.revision, agreed.revision))
    return msgspec.structs.replace(plan, facts=facts, cutoff=agreed)


def _declared(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if not schema.names:
        return batch.replace_schema_metadata(None)  # rows without columns: their number is all there is
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
