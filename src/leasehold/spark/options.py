"""The options of `format("leasehold")`: their names, and what those of a read ask for."""

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple, cast

import msgspec

from leasehold.client.cluster import Cluster
from leasehold.client.overwrite import ISOLATIONS, begin_overwrite
from leasehold.client.past import AsOf, read_time
from leasehold.client.table import conditions
from leasehold.core.data.replacement import Isolation, Overwrite
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import Filter, PlanChanges, ScanPlan
from leasehold.core.words.nearest import nearest
from leasehold.errors import BadSettings
from leasehold.ids import ObjectId, Revision
from leasehold.spark.reader import Asked
from leasehold.spark.stream_reader import Following

TABLE_OPTION: Final = "table"
PATH_OPTION: Final = "path"
"""What Spark calls the argument of `load` and `save`: a table here."""
CLUSTER_OPTION: Final = "cluster"
THROUGH_OPTION: Final = "through"
"""The numbers of the views that the table is read through, with commas between them; only we set it."""
PLAN_OPTION: Final = "plan"
"""The plan that is read, as text; only we set it."""
SHARES_OPTION: Final = "shares"
"""In how many shares each query reads the present; only we set it."""
USER_OPTION: Final = "user"
PASSWORD_OPTION: Final = "password"  # noqa: S105 - the name of an option, which Spark keeps out of its plans
CREDENTIALS_OPTION: Final = "credentials"
COLUMNS_OPTION: Final = "columns"
WHERE_OPTION: Final = "where"
AS_OF_REVISION_OPTION: Final = "asOfRevision"
AS_OF_TIMESTAMP_OPTION: Final = "asOfTimestamp"
REPLACE_WHERE_OPTION: Final = "replaceWhere"
OVERWRITE_MODE_OPTION: Final = "overwriteMode"
BY_OPTION: Final = "by"
ISOLATION_OPTION: Final = "isolation"
MERGE_SCHEMA_OPTION: Final = "mergeSchema"
CHECKPOINT_OPTION: Final = "checkpointLocation"
"""Spark's own: the folder in which it keeps how far a streaming query is."""
QUERY_NAME_OPTION: Final = "queryName"
"""Spark's own: what `queryName` calls a streaming query."""
STARTING_REVISION_OPTION: Final = "startingRevision"
ROWS_MAX_OPTION: Final = "maxRowsPerTrigger"
SEGMENTS_MAX_OPTION: Final = "maxSegmentsPerTrigger"
IGNORE_DELETES_OPTION: Final = "ignoreDeletes"
CHANGES_OPTION: Final = "changes"
CHANGES_SINCE_OPTION: Final = "changesSince"
CHANGES_UNTIL_OPTION: Final = "changesUntil"
BEGUN_OPTION: Final = "begun"
"""What an overwrite replaces, as it was when its new rows were read, as text; only we set it."""

_EVERYWHERE: Final = (TABLE_OPTION, PATH_OPTION, CLUSTER_OPTION, USER_OPTION, PASSWORD_OPTION, CREDENTIALS_OPTION)
READING: Final = (
    *_EVERYWHERE,
    THROUGH_OPTION,
    PLAN_OPTION,
    SHARES_OPTION,
    COLUMNS_OPTION,
    WHERE_OPTION,
    AS_OF_REVISION_OPTION,
    AS_OF_TIMESTAMP_OPTION,
)
FOLLOWING: Final = (
    *_EVERYWHERE,
    COLUMNS_OPTION,
    STARTING_REVISION_OPTION,
    ROWS_MAX_OPTION,
    SEGMENTS_MAX_OPTION,
    IGNORE_DELETES_OPTION,
    CHANGES_OPTION,
)
"""Of a stream that is read."""
CHANGES: Final = (
    *_EVERYWHERE,
    COLUMNS_OPTION,
    CHANGES_SINCE_OPTION,
    CHANGES_UNTIL_OPTION,
    IGNORE_DELETES_OPTION,
)
"""Of changes that are read at once."""
_OVERWRITING: Final = (REPLACE_WHERE_OPTION, OVERWRITE_MODE_OPTION, BY_OPTION, ISOLATION_OPTION)
WRITING: Final = (
    *_EVERYWHERE,
    *_OVERWRITING,
    MERGE_SCHEMA_OPTION,
    BEGUN_OPTION,
    THROUGH_OPTION,
    SHARES_OPTION,
    AS_OF_REVISION_OPTION,
    AS_OF_TIMESTAMP_OPTION,
)
"""A temporary view has one list of options, for both."""
STREAMING: Final = (*_EVERYWHERE, MERGE_SCHEMA_OPTION, CHECKPOINT_OPTION, QUERY_NAME_OPTION)
"""Of a stream that is written."""
_OURS: Final = (
    PATH_OPTION,
    THROUGH_OPTION,
    PLAN_OPTION,
    SHARES_OPTION,
    BEGUN_OPTION,
)
"""Options that no hint names."""


_DIGITS_MAX: Final = 20
"""Of a revision. Python reads no number of thousands of digits."""
_OWNER: Final = "owner"
"""What Spark adds to the options of a table of its own catalog, whose other options it loses."""
_OWN_CATALOG: Final = 'CREATE TABLE .. USING leasehold is for leasehold.spark.sql(spark, "..")'


def table_of(options: Mapping[str, str]) -> str:
    """The table that is read or written. Raises `BadSettings`."""
    named, path = options.get(TABLE_OPTION), options.get(PATH_OPTION)
    if named and path and named != path:
        raise BadSettings(f"two tables are named: {named} and {path}", hint='leave out .option("table", ..)')
    table = named or path
    if not table:
        hint = f'add .option("table", "database.table"); {_OWN_CATALOG}'
        raise BadSettings("no table is named", hint=hint)
    return table


def written_table(options: Mapping[str, str], known: tuple[str, ...]) -> str:
    """The table that is written, with options of the names `known`. Raises `BadSettings`."""
    check_names(options, known)
    if any(options.get(one) for one in (AS_OF_REVISION_OPTION, AS_OF_TIMESTAMP_OPTION)):
        raise BadSettings(
            "rows are added to the present, not to an earlier revision", hint="attach the tables without as_of"
        )
    return table_of(options)


class OverwriteOptions(NamedTuple):
    """What a write replaces, as its options say."""

    where: tuple[Filter, ...]
    isolation: Isolation
    by: str | None

    def begin(self, cluster: Cluster, name: str) -> Overwrite:
        """Raises as `begin_overwrite`."""
        return begin_overwrite(cluster, name, self.where, self.isolation, self.by)


def alters(options: Mapping[str, str]) -> bool:
    """Whether a write may add columns to the table and widen them. Raises `BadSettings`."""
    return _is_on(options, MERGE_SCHEMA_OPTION)


def following(options: Mapping[str, str]) -> Following:
    """What a stream reads. Raises `BadSettings`."""
    check_names(options, FOLLOWING)
    after = options.get(STARTING_REVISION_OPTION)
    return Following(
        table=table_of(options),
        after=None if after is None else Revision(_whole(after, STARTING_REVISION_OPTION)),
        rows_max=_limit(options, ROWS_MAX_OPTION),
        segments_max=_limit(options, SEGMENTS_MAX_OPTION),
        ignores_deletes=_is_on(options, IGNORE_DELETES_OPTION),
        changes=_is_on(options, CHANGES_OPTION),
    )


def are_changes(options: Mapping[str, str]) -> bool:
    """Whether a read is of changes, at once or as a stream. Raises `BadSettings`."""
    return CHANGES_SINCE_OPTION in options or _is_on(options, CHANGES_OPTION)


def changes_asked(options: Mapping[str, str]) -> PlanChanges:
    """The changes that are read at once. Raises `BadSettings`."""
    check_names(options, CHANGES)
    until = options.get(CHANGES_UNTIL_OPTION)
    return PlanChanges(
        cluster_id=None,
        name=table_of(options),
        columns=None,
        since=Revision(_whole(options[CHANGES_SINCE_OPTION], CHANGES_SINCE_OPTION)),
        until=None if until is None else Revision(_whole(until, CHANGES_UNTIL_OPTION)),
        ignores_deletes=_is_on(options, IGNORE_DELETES_OPTION),
    )


def _is_on(options: Mapping[str, str], name: str) -> bool:
    given = options.get(name, "false").lower()
    if given not in {"true", "false"}:
        raise BadSettings(f"{name} is {given[:40]!r}", hint="write true or false")
    return given == "true"


def _limit(options: Mapping[str, str], name: str) -> int | None:
    given = options.get(name)
    limit = None if given is None else _whole(given, name)
    if limit == 0:
        raise BadSettings(f"{name} is 0", hint="write 1 or more, or leave it out")
    return limit


def overwriting(options: Mapping[str, str], *, overwrites: bool) -> OverwriteOptions | Overwrite | None:
    """None for a write that adds rows. Raises `BadSettings`, and as `conditions`."""
    given = next((one for one in _OVERWRITING if options.get(one) is not None), None)
    if not overwrites:
        if given is not None:
            raise BadSettings(f"{given} is for a write that replaces rows", hint='write with mode("overwrite")')
        return None
    if BEGUN_OPTION in options:
        return msgspec.json.decode(options[BEGUN_OPTION], type=Overwrite)
    mode, by = options.get(OVERWRITE_MODE_OPTION, "static"), options.get(BY_OPTION)
    if mode not in {"static", "dynamic"}:
        raise BadSettings(f"{OVERWRITE_MODE_OPTION} is {mode!r}", hint="write static or dynamic")
    if (mode == "dynamic") != (by is not None):
        raise BadSettings(
            f"{OVERWRITE_MODE_OPTION} dynamic and {BY_OPTION} go together",
            hint='add .option("overwriteMode", "dynamic").option("by", "day")',
        )
    isolation = options.get(ISOLATION_OPTION, ISOLATIONS[0])
    return OverwriteOptions(conditions(options.get(REPLACE_WHERE_OPTION)), cast("Isolation", isolation), by)


def asked(options: Mapping[str, str], known: tuple[str, ...] = READING) -> Asked:
    """Raises `BadSettings` for an option that is not `known` or has no meaning, and as `conditions`."""
    check_names(options, known)
    columns = options.get(COLUMNS_OPTION)
    return Asked(
        table=table_of(options),
        columns=None if columns is None else tuple(one.strip() for one in columns.split(",")),
        where=conditions(options.get(WHERE_OPTION)),
        as_of=_as_of(options.get(AS_OF_REVISION_OPTION), options.get(AS_OF_TIMESTAMP_OPTION)),
        plan=base64.b64decode(options[PLAN_OPTION]) if PLAN_OPTION in options else None,
        shares=int(options.get(SHARES_OPTION, 0)),
        through=tuple(ObjectId(int(one)) for one in options.get(THROUGH_OPTION, "").split(",") if one),
    )


def plan_options(plan: ScanPlan) -> dict[str, str]:
    """The options of a read of just this plan: its revision, its segments and its cutoff."""
    return {PLAN_OPTION: base64.b64encode(encode(plan)).decode()}


def as_of_options(as_of: AsOf | None) -> dict[str, str]:
    """The options from which `asked` reads `as_of`."""
    match as_of:
        case None:
            return {}
        case datetime():
            return {AS_OF_TIMESTAMP_OPTION: as_of.isoformat()}
        case _:
            return {AS_OF_REVISION_OPTION: str(as_of)}


def _as_of(revision: str | None, time: str | None) -> AsOf | None:
    if revision is not None and time is not None:
        raise BadSettings(
            f"{AS_OF_REVISION_OPTION} and {AS_OF_TIMESTAMP_OPTION} are given", hint="leave out one of them"
        )
    if time is not None:
        return read_time(time, AS_OF_TIMESTAMP_OPTION)
    if revision is None:
        return None
    return _whole(revision, AS_OF_REVISION_OPTION)


def _whole(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise BadSettings(f"{name} is {text[:40]!r}, which is no whole number", hint="write digits alone")
    return int(text)


def check_names(options: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Raises `BadSettings` for an option that is not known: what it asks for would not happen."""
    names = {one.lower() for one in known}
    unknown = next((one for one in options if one.lower() not in names), None)
    if unknown == _OWNER:
        raise BadSettings("a table of Spark's own catalog can't be one of Leasehold", hint=_OWN_CATALOG)
    if unknown is not None:
        shown = [one for one in known if one not in _OURS]
        hint = nearest(unknown, shown) or f"the options are {', '.join(shown)}"
        raise BadSettings(f"there is no option {unknown!r} here", hint=hint)
