"""SELECTs of Spark over the tables and views of a cluster, each as a frame.

**All names of a SELECT are read at one revision.** If it reads one table, that is the present, as `table` reads it.
Otherwise it is the newest revision that the cluster has answered with while the names were looked up; each table is
read as of that revision. Once all frames are made the names are looked up again. If a table was altered meanwhile, all
begins anew, so that the columns are those of that revision too.

Each table is read with the columns and the conditions that the SELECT needs (`sql/pushdown.py`).
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from leasehold.client.cluster import Cluster
from leasehold.client.past import AsOf, read_time
from leasehold.core.words.messages import TableFacts, ViewFacts
from leasehold.core.words.records import Field
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound, Refused
from leasehold.spark.local_tables import Local
from leasehold.spark.reader import Asked, fields_of
from leasehold.spark.session_kinds import select_over
from leasehold.spark.tables import read_table, read_view
from leasehold.sql.binder import words
from leasehold.sql.pushdown import ALL, ReadNeeds, needed
from leasehold.sql.references import Reference, SparkSelect, rewritten
from leasehold.storage.schema import narrowest
from leasehold.wire.entropy import SystemEntropy

ALTERED_MAX: Final = 3
"""How often a SELECT is read whose tables are altered at the same time."""

_Relation: TypeAlias = TableFacts | ViewFacts


class SparkQuery(NamedTuple):
    """A SELECT, and where and how it reads; `login` are the options that log in."""

    spark: SparkSession
    connection: Cluster
    select: SparkSelect
    as_of: AsOf | None
    local: Local
    login: Mapping[str, str]

    def frame(self) -> DataFrame:
        """Raises as `leasehold.spark.sql`."""
        for _ in range(ALTERED_MAX):
            found = self._look_up()
            frame = self._made(found)
            if _versions(self._look_up()) == _versions(found):
                return frame
        raise Refused(
            "the tables of the SELECT are altered again and again", code=ErrorCode.BUSY, hint="run it again later"
        )

    def _look_up(self) -> dict[int, _Relation]:
        """The references, by their place, that name something of the cluster."""
        known: dict[str, _Relation | None] = {}
        for one in self.select.references:
            name = str(one.name)
            if name not in known:
                known[name] = self._relation(name)
        named = {place: known[str(one.name)] for place, one in enumerate(self.select.references)}
        return {place: one for place, one in named.items() if one is not None}

    def _relation(self, name: str) -> _Relation | None:
        """What the cluster has under a name; None for what Spark has. Raises `NotFound`."""
        try:
            return self.connection.facts(name)
        except NotFound:
            if self.spark.catalog.tableExists(name):
                return None
            self.connection.plan_query([name])  # its error has the nearest name
            raise
        except Refused as error:
            if error.code != ErrorCode.IS_VIEW:
                raise
            return self.connection.view_facts(name)

    def _made(self, found: Mapping[int, _Relation]) -> DataFrame:
        own = {place: _as_of(self.select.references[place]) for place in found}
        fields = {
            place: self._columns(one, self.as_of if own[place] is None else own[place])
            for place, one in found.items()
            if isinstance(one, TableFacts)
        }
        shared = self.as_of
        if shared is None and sum(len(one.tables) if isinstance(one, ViewFacts) else 1 for one in found.values()) > 1:
            shared = int(max(one.revision for one in found.values()))
        as_of = {place: shared if one is None else one for place, one in own.items()}
        if self.spark.conf.get("spark.sql.caseSensitive") == "true":
            wanted = dict.fromkeys(fields, ALL)  # names that we take for the same are not
        else:
            wanted = {place: _at_least_one(one, fields[place]) for place, one in needed(self.select, fields).items()}
        try:
            return self._run(found, as_of, wanted)
        except AnalysisException:
            if all(one == ALL for one in wanted.values()):
                raise
            # Now Spark knows all columns, and says which one may be meant.
            return self._run(found, as_of, dict.fromkeys(wanted, ALL))

    def _columns(self, table: TableFacts, as_of: AsOf | None) -> Sequence[Field]:
        return table.fields if as_of is None else fields_of(self.connection, Asked(table=table.name, as_of=as_of))

    def _run(
        self, found: Mapping[int, _Relation], as_of: Mapping[int, AsOf | None], wanted: Mapping[int, ReadNeeds]
    ) -> DataFrame:
        called = words(map(str, found), SystemEntropy().hex_128())
        names = {place: called[str(place)] for place in found}
        frames = {
            names[place]: self._view(relation, as_of[place])
            if isinstance(relation, ViewFacts)
            else self._table(relation, as_of[place], wanted[place])
            for place, relation in found.items()
        }
        return select_over(self.spark, rewritten(self.select, names), frames)

    def _table(self, table: TableFacts, as_of: AsOf | None, wanted: ReadNeeds) -> DataFrame:
        try:
            return read_table(
                self.spark,
                self.connection,
                table.name,
                wanted.columns,
                where=wanted.where,
                as_of=as_of,
                local=self.local,
                options=self.login,
            )
        except Refused as error:
            if wanted.where is None or error.code not in {ErrorCode.BAD_VALUE, ErrorCode.TOO_MANY_CONDITIONS}:
                raise
            return self._table(table, as_of, wanted._replace(where=None))  # Spark has the conditions too

    def _view(self, view: ViewFacts, as_of: AsOf | None) -> DataFrame:
        return read_view(self.spark, self.connection, view, as_of=as_of, local=self.local, options=self.login)


def _as_of(reference: Reference) -> AsOf | None:
    if reference.time is not None:
        return read_time(reference.time, f"TIMESTAMP AS OF behind {reference.name}")
    return reference.revision


def _at_least_one(wanted: ReadNeeds, fields: Sequence[Field]) -> ReadNeeds:
    return wanted._replace(columns=(narrowest(fields).name,)) if wanted.columns == () else wanted


def _versions(found: Mapping[int, _Relation]) -> dict[int, tuple[object, ...]]:
    """What changes if a table is altered or dropped, or a view made anew."""
    return {
        place: (one.table, one.schema_version, one.generation)
        if isinstance(one, TableFacts)
        else (one.views, one.tables)
        for place, one in found.items()
    }
