"""Databases, tables and views as SHOW and DESCRIBE tell them."""

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from rpds import HashTrieMap

from leasehold.core.catalog.catalog import Catalog, live_fields
from leasehold.core.questions.rows import Row, rows_of
from leasehold.core.replicas.copies import holders_if_few, is_full
from leasehold.core.replicas.replication import present_holders
from leasehold.core.words import statements
from leasehold.core.words.durations import render_duration
from leasehold.core.words.literals import render
from leasehold.core.words.messages import Rows
from leasehold.core.words.records import TableRecord, UseState, ViewRecord
from leasehold.ids import BucketNumber, NodeId, ObjectId

R = TypeVar("R", TableRecord, ViewRecord)
TABLE_COLUMNS: Final = (
    *("database", "table", "buckets", "replication", "rows", "bytes"),
    *("buckets_in_sync", "buckets_alone", "buckets_lost", "segments_short", "bytes_short"),
    "bytes_replaced",
)


def databases(_question: statements.ShowDatabases, catalog: Catalog) -> Rows:
    used = [one for one in catalog.databases.values() if one.state is UseState.IN_USE]
    return rows_of(("database", "comment"), sorted((one.name, one.comment) for one in used), catalog)


def database(question: statements.DescribeDatabase, catalog: Catalog) -> Rows:
    found = catalog.database(question.name)
    rows = [("name", found.name), ("comment", found.comment), *sorted(found.properties.items())]
    return rows_of(("key", "value"), rows, catalog)


def tables(question: statements.ShowTables, catalog: Catalog) -> Rows:
    """Tables with their size and their copies: the buckets that enough nodes hold whole, those with segments that one
    node alone holds, and those with segments that no node holds; the segments to be copied, and their bytes; the bytes
    of segments that were replaced and are still kept."""
    rows: list[Row] = []
    for owner, table in _in_use(catalog.tables, catalog, question.database):
        size = size_bytes = in_sync = alone = lost = short = short_bytes = replaced_bytes = 0
        for number in range(table.buckets):
            key = (table.id, BucketNumber(number))
            bucket, segments = catalog.buckets.get(key), (catalog.segments.get(key) or {}).values()
            size += sum(segment.rows for segment in segments)
            size_bytes += sum(segment.size_bytes for segment in segments)
            replaced_bytes += sum(one.segment.size_bytes for one in (catalog.replaced.get(key) or {}).values())
            if bucket is not None and is_full(bucket, catalog):
                in_sync += 1
                continue
            few = [(len(holders), one) for one in segments if (holders := holders_if_few(one, catalog)) is not None]
            short += len(few)
            short_bytes += sum(one.size_bytes for _, one in few)
            fewest = min((count for count, _ in few), default=None)
            alone += fewest == 1
            lost += fewest == 0
        about = owner, table.name, table.buckets, table.replication
        rows.append((*about, size, size_bytes, in_sync, alone, lost, short, short_bytes, replaced_bytes))
    return rows_of(TABLE_COLUMNS, sorted(rows), catalog)


def views(question: statements.ShowViews, catalog: Catalog) -> Rows:
    rows = [
        (owner, view.name, ", ".join(_needed(view, catalog)), view.comment)
        for owner, view in _in_use(catalog.views, catalog, question.database)
    ]
    return rows_of(("database", "view", "reads", "comment"), sorted(rows), catalog)


def properties(question: statements.ShowProperties, catalog: Catalog) -> Rows:
    """SHOW TBLPROPERTIES of a table or a view."""
    view = catalog.find_view(question.table)
    if view is not None:
        known = {"comment": view.comment, "reads": ", ".join(_needed(view, catalog)), "select": view.body}
    else:
        known = _table_properties(catalog.table(question.table))
    return rows_of(("key", "value"), sorted(known.items()), catalog)


def buckets(question: statements.ShowBuckets, catalog: Catalog) -> Rows:
    """The nodes of each bucket, and how many nodes hold its least copied segment; removed ones do not count."""
    table = catalog.table(question.table)
    rows: list[Row] = []
    for number in range(table.buckets):
        key = (table.id, BucketNumber(number))
        bucket, segments = catalog.buckets[key], (catalog.segments.get(key) or {}).values()
        copies = min((len(present_holders(segment, catalog)) for segment in segments), default=None)
        names = [", ".join(_named(nodes, catalog)) for nodes in (bucket.replicas, bucket.in_sync)]
        size = sum(segment.rows for segment in segments), sum(segment.size_bytes for segment in segments)
        rows.append((number, *names, len(bucket.in_sync) if copies is None else copies, len(segments), *size))
    return rows_of(("bucket", "replicas", "in_sync", "copies", "segments", "rows", "bytes"), rows, catalog)


def columns(question: statements.Describe, catalog: Catalog) -> Rows:
    view = catalog.find_view(question.table)
    if view is not None:
        return rows_of(("column", "type"), [(one.name, one.type) for one in view.columns], catalog)
    table = catalog.table(question.table)
    rows: list[Row] = []
    for field in live_fields(table):
        notes: list[str] = []
        if field.id == table.cluster_by:
            notes.append(f"clustered into {table.buckets} buckets")
        if field.id == table.time_column and table.ttl_ns is not None:
            notes.append(f"rows expire after {render_duration(table.ttl_ns)}")
        default = None if field.default is None else render(field.default, field.type)
        rows.append((field.name, field.type, field.nullable, default, field.comment, ", ".join(notes)))
    return rows_of(("column", "type", "nullable", "default", "comment", "note"), rows, catalog)


def _in_use(relations: "HashTrieMap[ObjectId, R]", catalog: Catalog, database: str | None) -> Iterator[tuple[str, R]]:
    """The tables or views of one database, or of all, each with the name of its database."""
    if database is not None:
        owner = catalog.database(database)
        for one in (relations.get(number) for number in catalog.relations(owner.id)):
            if one is not None and one.state is UseState.IN_USE:
                yield owner.name, one
        return
    owners = {one.id: one.name for one in catalog.databases.values() if one.state is UseState.IN_USE}
    for one in relations.values():
        if one.state is UseState.IN_USE and one.database in owners:
            yield owners[one.database], one


def _needed(view: ViewRecord, catalog: Catalog) -> list[str]:
    found = [catalog.tables.get(need.object) or catalog.views.get(need.object) for need in view.needs]
    return sorted(str(catalog.table_name(one)) for one in found if one is not None)


def _named(nodes: Iterable[NodeId], catalog: Catalog) -> Iterator[str]:
    return (str(one) if (known := catalog.nodes.get(one)) is None else known.name for one in nodes)


def _table_properties(table: TableRecord) -> dict[str, str]:
    known = {**table.properties, "comment": table.comment, "replication": str(table.replication)}
    if table.min_in_sync:
        known["min_in_sync"] = str(table.min_in_sync)
    time_column = next((one.name for one in table.fields if one.id == table.time_column), None)
    if time_column is not None:
        known["time_column"] = time_column
    if table.ttl_ns is not None:
        known["ttl"] = render_duration(table.ttl_ns)
    return known
