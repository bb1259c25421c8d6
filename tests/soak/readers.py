"""Readers on the machine of the nodes, which open their files themselves (`core/local`), as Spark does."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from leasehold.client.cluster import Cluster
from leasehold.client.local_opens import LocalOpen, open_locally
from leasehold.core.data.read_groups import members
from leasehold.core.membership.identity import node_login
from leasehold.core.words.messages import ScanPlan
from leasehold.core.words.records import SegmentFormat
from leasehold.storage.schema import physical_name


class OpenEndedError(Exception):
    """A file could not be opened any more."""


class LostLinkError(Exception):
    """A file could not be opened although nothing had ended."""


def opened(cluster: Cluster, plan: ScanPlan) -> LocalOpen:
    """What can be opened of a plan in groups."""
    return open_locally(
        plan, members(plan), login=node_login(cluster.token), revision=plan.facts.revision, tls=cluster.tls
    )


def files(made: LocalOpen) -> list[Path]:
    found: list[Path] = []
    for folder in (folder for group in made.folders for folder in group):
        with suppress(FileNotFoundError):  # it may end at any moment
            found += folder.iterdir()
    return found


def keys_of(cluster: Cluster, plan: ScanPlan, name: str) -> tuple[pa.ChunkedArray, int]:
    """The values of a column, and how many segments were read as files; the others came over Flight. Raises
    `OpenEndedError`, `LostLinkError`."""
    made = opened(cluster, plan)
    try:
        field = next(one for one in plan.fields if one.name == name)
        here = {one.id for group in members(plan) for one in group} - made.left_out.keys()
        found = files(made)
        try:
            if len(found) != len(here):
                raise FileNotFoundError
            stored = physical_name(field, SegmentFormat.FIELD_IDS)
            values = [chunk for path in found for chunk in pq.read_table(path, columns=[stored])[0].chunks]
        except FileNotFoundError as error:
            if made.check() is None:
                raise LostLinkError(f"{plan.facts.name}: {len(found)} files of {len(here)}: {error}") from error
            raise OpenEndedError from error
    finally:
        made.close()
    rest = tuple(one for one in plan.segments if one.id not in here)
    if rest:
        values += cluster.read(msgspec.structs.replace(plan, segments=rest, grouped=None)).read_all()[name].chunks
    return pa.chunked_array(values, pa.int64()), len(here)


def opens_after(cluster: Cluster, plan: ScanPlan, must_have_ended: Callable[[], bool], wait: Callable[[], bool]) -> str:
    """Holds the files of a plan open to others until one can't be opened; what is wrong with that, or nothing.
    `must_have_ended` is asked before each attempt; `wait` says after each whether to give up."""
    made = opened(cluster, plan)
    try:
        for path in files(made)[:1]:
            while not wait():
                late = must_have_ended()
                try:
                    path.open("rb").close()
                except FileNotFoundError:
                    return ""
                if late:
                    return f"INV-OPEN-1: {path} of {plan.facts.name} was opened after that"
        return ""
    finally:
        made.close()
