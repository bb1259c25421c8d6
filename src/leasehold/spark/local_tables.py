"""Tables whose files Spark reads itself: which frames do so, and what they read.

Spark reads the files of a node if it runs in one process, on the machine of the node and as its user; if the cluster
lets it; and if the files can be read in groups (`core/data/read_groups.py`). On a cluster of Spark it does so if it was
asked to, and each executor can (`spark/executors.py`). Segments that are elsewhere come over
Flight in the same frame. If none is here, the frame is one of the source, as any other.
"""

import logging
from collections.abc import Callable
from typing import Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

import msgspec
from pyspark.sql import DataFrame, SparkSession

from leasehold.client.cluster import Cluster
from leasehold.client.local_opens import LocalOpen, open_locally
from leasehold.core.data.read_groups import members
from leasehold.core.membership.identity import node_login
from leasehold.core.words.messages import ScanPlan
from leasehold.core.words.records import SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, LeaseholdError, Refused
from leasehold.ids import Revision
from leasehold.spark.executors import all_see
from leasehold.spark.held_frames import hold
from leasehold.spark.joined_files import join_small_files
from leasehold.spark.local_frames import local_frame, stored_schema
from leasehold.spark.reader import Asked, planned
from leasehold.spark.session_kinds import is_classic, is_one_process
from leasehold.spark.settings import keeping_logins

log = logging.getLogger(__name__)

Local: TypeAlias = bool | Literal["auto"]


class FramePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a frame reads, in segments of its table."""

    table: str
    revision: Revision
    segments: int
    """All that the table had."""
    pruned: int
    """Those without a row that fulfils `where`."""
    local: int
    """Those whose files Spark reads itself."""
    remote: int
    """Those that come over Flight."""
    groups: int
    """In which the local ones are read."""

    def __str__(self) -> str:
        return f"leasehold local {self.table}, {self.local} of {self.segments} segments"


_PLANS: Final[WeakKeyDictionary[DataFrame, FramePlan]] = WeakKeyDictionary()
_WARNED: Final[set[str]] = set()


def last_plan(frame: DataFrame) -> FramePlan | None:
    """What a frame that `table` has given reads. None if all of it comes over Flight, which Spark plans at its first
    query, and for frames that were made of others."""
    return _PLANS.get(frame)


def read_locally(
    spark: SparkSession, connection: Cluster, asked: Asked, local: Local, over_flight: Callable[[ScanPlan], DataFrame]
) -> DataFrame | None:
    """A frame that reads files; None if all has to be read over Flight. `over_flight` makes a frame of the source with
    the segments of a plan. With `local=True` raises `Refused` with code NOT_LOCAL if anything has to."""
    if local not in (True, False, "auto"):
        raise BadSettings(f"local is {local!r}", hint='write local="auto", local=True or local=False')
    if local is False:
        return None
    if not is_classic(spark):
        return _declined(local, asked.table, "the driver of Spark Connect is elsewhere")
    master = spark.sparkContext.master or ""
    is_alone = is_one_process(spark)
    if not is_alone and local is not True:
        return _declined(local, asked.table, f"tasks of {master} may run on other machines")
    plan = planned(connection, asked, grouped=True)
    if plan.grouped is None:
        return _declined(local, plan.facts.name, "the setting local_reads is off, or the table has too many segments")
    groups = members(plan)
    try:
        opened = _opened(spark, connection, plan, groups)
    except LeaseholdError:
        if local is True:
            raise
        return None  # over Flight the same is refused, but not what is about links
    found = {one.id for group in groups for one in group if one.id not in opened.left_out}
    rest = tuple(one for one in plan.segments if one.id not in found)
    if rest and (local is True or not found):
        opened.close()
        why = next(iter(opened.left_out.values()), None)
        return _declined(local, plan.facts.name, "its files can't be read in groups" if why is None else why.text)
    if not is_alone and not all_see(spark, (folder for group in opened.folders for folder in group)):
        opened.close()
        return _declined(local, plan.facts.name, f"an executor of {master} does not see them, or had no time to look")
    shown = FramePlan(
        table=plan.facts.name,
        revision=plan.as_of or plan.facts.revision,
        segments=len(plan.segments) + plan.left_out,
        pruned=plan.left_out,
        local=len(found),
        remote=len(rest),
        groups=sum(map(bool, opened.folders)),
    )
    try:
        of_groups = zip(plan.grouped.groups, opened.folders, strict=True)
        folders = [join_small_files(of_group, stored_schema(group)) for group, of_group in of_groups]
        others = over_flight(msgspec.structs.replace(plan, segments=rest, grouped=None)) if rest else None
        frame = local_frame(spark, plan, folders, others).alias(str(shown))
        if found:
            hold(spark, frame, plan.facts.name, opened)
    except BaseException:
        opened.close()
        raise
    _PLANS[frame] = shown
    return frame


def _opened(
    spark: SparkSession, connection: Cluster, plan: ScanPlan, groups: tuple[tuple[SegmentRecord, ...], ...]
) -> LocalOpen:
    """The files of a plan, for as long as the application of the session lasts."""
    if not groups:
        return LocalOpen()
    login, revision = None, plan.facts.revision
    if connection.token is not None:
        application = keeping_logins(spark, connection.target)
        given = connection.delegate(plan.facts.table, through=plan.through, application=application)
        login, revision = node_login(given.token), given.revision
    opened = open_locally(plan, groups, login=login, revision=revision, tls=connection.tls)
    for why in opened.left_out.values():
        if why.code == ErrorCode.NO_LINKS and why.text not in _WARNED:
            _WARNED.add(why.text)
            log.warning("%s is read over Flight: %s", plan.facts.name, why.text)
    return opened


def _declined(local: Local, table: str, why: str) -> None:
    if local is True:
        raise Refused(
            f"{table} can't be read from files alone: {why}",
            code=ErrorCode.NOT_LOCAL,
            hint='with local="auto" what is not here comes over Flight',
        )
