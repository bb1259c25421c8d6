"""Views as clients read them: with all that they read, down to the tables."""

from leasehold.core.catalog import Catalog, live_fields
from leasehold.core.codec import encode
from leasehold.core.messages import TableNeeded, ViewBody, ViewFacts
from leasehold.core.records import TableRecord, ViewRecord
from leasehold.core.statements import TableName
from leasehold.errors import Refused
from leasehold.ids import FieldId, ObjectId
from leasehold.limits import MESSAGE_BYTES_MAX


def view_facts(name: TableName, catalog: Catalog) -> ViewFacts:
    """The view in use under `name`. Raises `NotFound`, or `Refused` with code TOO_MANY_VIEWS for too many below it."""
    views: dict[ObjectId, ViewRecord] = {}
    fields: dict[ObjectId, set[FieldId]] = {}

    def take(view: ViewRecord) -> None:  # no deeper than VIEW_DEPTH_MAX
        for need in view.needs:
            if need.object in catalog.views and need.object not in views:
                take(catalog.views[need.object])
            elif need.object in catalog.tables:
                fields.setdefault(need.object, set()).update(need.fields)
        views[view.id] = view

    take(catalog.view(name))
    assert catalog.cluster is not None
    facts = ViewFacts(
        cluster_id=catalog.cluster.cluster_id,
        revision=catalog.revision,
        views=tuple(
            ViewBody(view=one.id, name=str(catalog.table_name(one)), body=one.body, columns=one.columns)
            for one in views.values()
        ),
        tables=tuple(_needed(catalog.tables[one], fields[one], catalog) for one in sorted(fields)),
    )
    if len(encode(facts)) > MESSAGE_BYTES_MAX:
        text = f"view {name} reads {len(views) - 1} other views, more than one answer can hold"
        raise Refused(text, code="TOO_MANY_VIEWS", hint="make it read the tables instead")
    return facts


def _needed(table: TableRecord, fields: set[FieldId], catalog: Catalog) -> TableNeeded:
    """Where only the rows are counted, their first column stands for them."""
    live = live_fields(table)
    names = tuple(field.name for field in live if field.id in fields) or (live[0].name,)
    return TableNeeded(name=str(catalog.table_name(table)), columns=names)
