"""`format("leasehold")`: a data source of Spark (PySpark 4.3, `pyspark.sql.datasource`).

Spark makes the source, the reader and the writer in a Python process beside the driver and pickles them from there to
the workers. So they carry only plain values: names, numbers, and encoded messages.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from leasehold.client.cluster import Cluster
from leasehold.client.credentials import find_credentials
from leasehold.client.locate import TARGET_DEFAULT
from leasehold.client.not_written import aborted_on_error
from leasehold.core.data.replacement import Overwrite
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import TableFacts
from leasehold.spark.change_reader import LeaseholdChangesReader, with_labels
from leasehold.spark.change_stream import ChangesStreamReader
from leasehold.spark.entry import entry_for, freeze_modules
from leasehold.spark.errors import readable
from leasehold.spark.options import (
    CHANGES,
    CLUSTER_OPTION,
    CREDENTIALS_OPTION,
    FOLLOWING,
    PASSWORD_OPTION,
    READING,
    STREAMING,
    USER_OPTION,
    WRITING,
    are_changes,
    changes_asked,
    following,
    written_table,
)
from leasehold.spark.options import asked as asked_by
from leasehold.spark.reader import Asked, LeaseholdReader, fields_of
from leasehold.spark.sink import LeaseholdSink
from leasehold.spark.stream_reader import LeaseholdStreamReader, TableStream
from leasehold.spark.stream_sink import LeaseholdStreamSink
from leasehold.spark.types import spark_schema

FORMAT: Final = "leasehold"
CLUSTER_VARIABLE: Final = "LEASEHOLD_CLUSTER"
HOST_AND_PORT: Final = re.compile(r"[^/]+:[0-9]+")


class LeaseholdSource(DataSource):
    """A table, by the options `table` (`database.table`) and `cluster` (a directory, or host:port of coordinators).

    A read takes `columns` (names with commas between them), `where` (conditions, as `client.table.Table.scan`), and
    `asOfRevision` or `asOfTimestamp` (a time in ISO 8601 with its zone). A write with mode "overwrite" takes
    `replaceWhere`, `by` (with `overwriteMode` "dynamic") and `isolation`, which are `where`, `by` and `isolation` of
    `client.table.Table.overwrite`. With `mergeSchema` "true" a write alters the table so that its columns fit.
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
        asked = self._asked((*READING, *FOLLOWING, *CHANGES))
        with readable(asked.table), self._cluster() as cluster:
            fields = fields_of(cluster, asked)
            return with_labels(fields) if are_changes(self.options) else spark_schema(fields)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns of `schema`."""
        if are_changes(self.options):
            return self._changes_reader(schema)
        asked = self._asked()
        with readable(asked.table), self._cluster() as cluster:
            entry = entry_for(
                cluster, cluster.facts(asked.table).table, through=asked.through, application=self._application()
            )
            return LeaseholdReader(entry=entry, asked=asked, schema=schema)

    def _changes_reader(self, schema: StructType) -> LeaseholdChangesReader:
        with readable(FORMAT):
            request = changes_asked(self.options)
        with readable(request.name), self._cluster() as cluster:
            entry = entry_for(cluster, cluster.facts(request.name).table, application=self._application())
        return LeaseholdChangesReader(entry=entry, request=request, schema=schema)

    def streamReader(self, schema: StructType) -> TableStream:  # noqa: N802 - Spark's name
        """A reader of what is added to a table, or changed."""
        with readable(FORMAT):
            asked = following(self.options)
        kind = ChangesStreamReader if asked.changes else LeaseholdStreamReader
        return kind(self._cluster, asked, schema, self._application())

    def writer(self, schema: StructType, overwrite: bool) -> LeaseholdSink:
        """Opens a write transaction, once per write, before any task runs.

        Raises `Refused` with code ROWS_DO_NOT_FIT with every column that does not.
        """
        with readable(table := self._table(WRITING)), self._cluster() as cluster:
            from leasehold.spark.begun_writes import begin_write  # noqa: PLC0415 - every worker imports this module

            facts, begun = begin_write(cluster, table, schema, self.options, overwrites=overwrite)
            return self._opened(cluster, facts, begun, replaces=begun is not None)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LeaseholdStreamSink:  # noqa: N802 - Spark's name
        """A writer of one batch of a streaming query."""

        def begin() -> LeaseholdSink:
            with readable(table := self._table(STREAMING)), self._cluster() as cluster:
                return self._opened(cluster, self._fitting(cluster, table, schema), None, replaces=overwrite)

        return LeaseholdStreamSink(begin, replaces=overwrite)

    def _fitting(self, cluster: Cluster, table: str, schema: StructType) -> TableFacts:
        from leasehold.spark.evolution import fitting  # noqa: PLC0415 - every worker imports this module

        return fitting(cluster, table, schema, self.options)

    def _opened(
        self,
        cluster: Cluster,
        facts: TableFacts,
        begun: Overwrite | None,
        *,
        replaces: bool,
    ) -> LeaseholdSink:
        transaction = cluster.new_transaction()
        opened = cluster.open_transaction(facts, transaction)
        with aborted_on_error(cluster, facts, transaction):
            entry = entry_for(
                cluster, facts.table, application=self._application(), transaction=transaction, replaces=replaces
            )
        return LeaseholdSink(
            entry=entry,
            facts=encode(facts),
            transaction=transaction,
            revision=max(opened.revision, entry.revision),
            begun=begun,
        )

    def _asked(self, known: tuple[str, ...] = READING) -> Asked:
        with readable(FORMAT):
            return asked_by(self.options, known)

    def _table(self, known: tuple[str, ...]) -> str:
        with readable(FORMAT):
            return written_table(self.options, known)

    def _cluster(self) -> Cluster:
        freeze_modules()
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
