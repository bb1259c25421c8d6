"""Facts about tables and views, for clients that read and write them."""

from leasehold.core.catalog.catalog import Catalog, live_fields
from leasehold.core.catalog.reads import Reads, all_read
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import BucketPlaces, Place, TableFacts, TableNeeded, ViewBody, ViewFacts
from leasehold.core.words.nearest import nearest
from leasehold.core.words.records import TableRecord, ViewRecord
from leasehold.core.words.statements import TableName
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound, Refused
from leasehold.ids import IDENTIFIER, BucketNumber, FieldId
from leasehold.limits.messages import MESSAGE_BYTES_MAX


def parse_name(name: str) -> TableName:
    """The name that a client wrote as `database.table`; raises `Refused` (BAD_NAME)."""
    database, dot, table = name.partition(".")
    if not dot or IDENTIFIER.fullmatch(database) is None or IDENTIFIER.fullmatch(table) is None:
        raise Refused(f"{name[:100]!r} is not a table name", code=ErrorCode.BAD_NAME, hint="write database.table")
    return TableName(database, table)


def relation_named(name: TableName, catalog: Catalog) -> TableRecord | ViewRecord:
    """The table or view in use under `name`; raises `NotFound`, which suggests similar names."""
    found = catalog.find_table(name) or catalog.find_view(name)
    if found is not None:
        return found
    database = catalog.find_database(name.database)
    if database is None:
        meant = nearest(name.database, (one.name for one in catalog.databases.values()))
        raise NotFound(f"no database {name.database}", hint=f"{meant} SHOW DATABASES lists them".lstrip())
    others = (catalog.tables.get(one) or catalog.views.get(one) for one in catalog.relations(database.id))
    meant = nearest(name.table, (one.name for one in others if one is not None))
    listed = f"SHOW TABLES IN {database.name} and SHOW VIEWS IN {database.name} list them"
    raise NotFound(f"no table or view {name}", hint=f"{meant} {listed}".lstrip())


def table_facts(table: TableRecord, catalog: Catalog) -> TableFacts:
    buckets: list[BucketPlaces] = []
    members: set[int] = set()
    for number in range(table.buckets):
        bucket = catalog.buckets[table.id, BucketNumber(number)]
        ready = [node for node in bucket.replicas if node in bucket.in_sync]
        behind = [node for node in bucket.replicas if node not in bucket.in_sync]
        buckets.append(BucketPlaces(bucket=bucket.bucket, replicas=(*ready, *behind)))
        members.update(bucket.replicas, bucket.retired)
    places = [
        Place(node=node.id, name=node.name, address=node.address, incarnation=node.incarnation)
        for node in sorted(catalog.nodes.values(), key=lambda one: one.id)
        if node.id in members
    ]
    assert catalog.cluster is not None
    return TableFacts(
        cluster_id=catalog.cluster.cluster_id,
        revision=catalog.revision,
        table=table.id,
        name=str(catalog.table_name(table)),
        schema_version=table.schema_version,
        fields=live_fields(table),
        cluster_by=table.cluster_by,
        buckets=tuple(buckets),
        places=tuple(places),
        generation=catalog.cluster.generation,
    )


def view_facts(name: TableName, catalog: Catalog) -> ViewFacts:
    """The view in use under `name`. Raises `NotFound`, or `Refused` with code TOO_MANY_VIEWS for too many below it."""
    reads = all_read((catalog.view(name),), catalog)
    assert catalog.cluster is not None
    facts = ViewFacts(
        cluster_id=catalog.cluster.cluster_id,
        revision=catalog.revision,
        views=view_bodies(reads, catalog),
        tables=tables_needed(reads, catalog),
    )
    if len(encode(facts)) > MESSAGE_BYTES_MAX:
        text = f"view {name} reads {len(reads.views) - 1} other views, which is more than one answer can hold"
        raise Refused(text, code=ErrorCode.TOO_MANY_VIEWS, hint="read the tables instead")
    return facts


def view_bodies(reads: Reads, catalog: Catalog) -> tuple[ViewBody, ...]:
    return tuple(
        ViewBody(view=one.id, name=str(catalog.table_name(one)), body=one.body, columns=one.columns)
        for one in reads.views
    )


def tables_needed(reads: Reads, catalog: Catalog) -> tuple[TableNeeded, ...]:
    read = ((table, reads.fields(table.id)) for table in reads.tables)
    return tuple(_needed(table, fields, catalog) for table, fields in read if fields is not None)


def _needed(table: TableRecord, fields: set[FieldId], catalog: Catalog) -> TableNeeded:
    """Where only the rows are counted, their first column stands for them."""
    live = live_fields(table)
    names = tuple(field.name for field in live if field.id in fields) or (live[0].name,)
    return TableNeeded(name=str(catalog.table_name(table)), columns=names)
