"""What was changed in a table after a revision: which rows came, and which went (docs/spark.md, "Changes").

Theory of operation. Each segment knows the revision of its commit, and a segment that was replaced by other rows the
revision of the commit that did it. So what one commit changed are two sets of segments: the added ones and the taken
ones. Rows that are in both have only moved. Who reads the changes compares the rows, since only files have them.

| commit | added | taken |
| --- | --- | --- |
| an append | its segments | none |
| an overwrite, a MERGE, an UPDATE | its segments, also those with rows that stay | those that it replaced |
| a rewrite | its segments have no revision of a commit: all rows stay | |

The segments that this needs may have been replaced since, and are kept for `change_retention`. When one is released,
its table notes up to which revision a change may lack it (`released`). A reader who asks for an earlier one gets
TOO_OLD: there is never a gap. What a DELETE took can be read by nobody, so a reader gets ROWS_TAKEN_AWAY.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.data.cutoff import cutoff
from leasehold.core.data.facts import parse_name, table_facts
from leasehold.core.data.following import all_segments, as_planned, check_same
from leasehold.core.data.scan_plan import PLAN_LIMITS, PlanLimits, chosen_fields
from leasehold.core.membership.generations import generation_of
from leasehold.core.words import keys
from leasehold.core.words.change_retention import CHANGE_RETENTION
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import ChangesPlan, CommitChanges, PlanChanges, ScanPlan
from leasehold.core.words.operations import Change
from leasehold.core.words.records import ReplacedRecord, SegmentRecord, TableRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import ObjectId, Revision
from leasehold.limits.statements import CHANGES_COMMITS_MAX

COMMIT_TIME_ROOM_BYTES: Final = 16
"""What the commit time of a commit adds to an answer, at most: the leader puts it in when the commits are known."""

# ---------------------------------------------------------------- what is released


def released(entries: Iterable[ReplacedRecord], catalog: Catalog) -> tuple[Change, ...]:
    """Forgets segments that were replaced, so that nodes delete their files; tables note what can be told no more."""
    changes: list[Change] = []
    lost: defaultdict[ObjectId, Revision] = defaultdict(lambda: Revision(0))
    for one in entries:
        segment = one.segment
        changes.append(Change(keys.replaced(segment.table, segment.bucket, segment.id), None))
        lost[segment.table] = max(lost[segment.table], one.commit, segment.commit)
    for number, revision in sorted(lost.items()):
        table = catalog.tables.get(number)
        if table is not None and revision > table.changes_from:
            changes.append(put(keys.table(number), msgspec.structs.replace(table, changes_from=revision)))
    return tuple(changes)


# ---------------------------------------------------------------- in a plan


def plan_changes(request: PlanChanges, catalog: Catalog, limits: PlanLimits = PLAN_LIMITS) -> ChangesPlan:
    """The commits that one message can hold, one at least. Raises as `changed`, and `Refused` (BAD_SCHEMA)."""
    table = catalog.table(parse_name(request.name))
    plan = ScanPlan(
        facts=table_facts(table, catalog),
        fields=chosen_fields(request.columns, table),
        segments=(),
        cutoff=cutoff(table, catalog),
    )
    commits = changed(request, table, catalog)
    until = catalog.revision if request.until is None else request.until
    if len(commits) > CHANGES_COMMITS_MAX:
        commits = commits[:CHANGES_COMMITS_MAX]
        until = commits[-1].revision
    answer = ChangesPlan(plan=plan, commits=tuple(commits), until=until)
    while len(encode(answer)) + COMMIT_TIME_ROOM_BYTES * len(answer.commits) > limits.bytes_max:
        if len(answer.commits) <= 1:
            raise _too_many_segments(answer.commits)
        fewer = answer.commits[: len(answer.commits) // 2]
        answer = ChangesPlan(plan=plan, commits=fewer, until=fewer[-1].revision)
    return answer


def changed(asked: PlanChanges, table: TableRecord, catalog: Catalog) -> list[CommitChanges]:
    """What was changed after a revision, in order; commits of one revision count as one. Raises `NotFound`, `Refused`:
    ROWS_TAKEN_AWAY, TOO_OLD, FUTURE_REVISION."""
    name = catalog.table_name(table)
    if asked.table is not None:
        check_same(asked.table, asked.generation or generation_of(catalog), table, catalog)
    until = catalog.revision if asked.until is None else asked.until
    if max(asked.since, until) > catalog.revision:
        raise Refused(
            f"revision {max(asked.since, until)} does not exist yet: the newest is {catalog.revision}",
            code=ErrorCode.FUTURE_REVISION,
            hint="leave the end out to read up to the present",
        )
    if asked.since < table.changes_from:
        raise _too_old(f"what {name} had until revision {table.changes_from} is not kept any more", table)
    if asked.since < table.deleted <= until and not asked.ignores_deletes:
        raise Refused(
            f"rows of {name} were deleted at revision {table.deleted}, and deleted rows can't be read by anybody",
            code=ErrorCode.ROWS_TAKEN_AWAY,
            hint="begin after it, or say that deletes are to be ignored; a MERGE that deletes shows the rows it takes",
        )
    added: defaultdict[Revision, list[SegmentRecord]] = defaultdict(list)
    taken: defaultdict[Revision, list[SegmentRecord]] = defaultdict(list)
    for one in all_segments(table, catalog):
        segment = one
        if isinstance(one, ReplacedRecord):
            segment = one.segment
            if asked.since < one.commit <= until:
                taken[one.commit].append(segment)
        assert isinstance(segment, SegmentRecord), "one of the two"
        if not segment.commit:
            if segment.number:
                raise _too_old(f"{name} has rows whose revision an older version did not write down", table)
        elif asked.since < segment.commit <= until:
            added[segment.commit].append(segment)
    return [
        CommitChanges(
            revision=revision,
            added=tuple(map(as_planned, added[revision])),
            taken=tuple(map(as_planned, taken[revision])),
        )
        for revision in sorted({*added, *taken})
    ]


def _too_old(text: str, table: TableRecord) -> Refused:
    return Refused(
        text,
        code=ErrorCode.TOO_OLD,
        hint=f"begin at revision {table.changes_from} or later; the property {CHANGE_RETENTION} of a table keeps what"
        " is replaced for longer",
    )


def _too_many_segments(commits: tuple[CommitChanges, ...]) -> Refused:
    at = "these columns are" if not commits else f"the changes of revision {commits[0].revision} are"
    return Refused(
        f"{at} more than one answer can hold",
        code=ErrorCode.TOO_MANY_SEGMENTS,
        hint="name fewer columns" if not commits else f"begin at revision {commits[0].revision}",
    )
