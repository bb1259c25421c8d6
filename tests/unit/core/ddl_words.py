"""Words that the tests of statements share: clusters on which some have run, and what a transaction wrote."""

import msgspec

from leasehold.core import ddl
from leasehold.core.ddl.claims import VIEWS, claims, table_name
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.records import (
    Claim,
    Field,
    HiddenTable,
    HiddenView,
    Need,
    Outcome,
    ProcedureRecord,
    Record,
    StatementRecord,
    Step,
    TableRecord,
    UseState,
    ViewColumn,
    ViewRecord,
)
from leasehold.core.words.statements import TableName
from tests.unit.core.catalog_words import (
    Ground,
    create_database,
    create_table,
    receipt,
)

T = TableName("db", "t")
BOTH = [create_database(), create_table()]


def written(changes):
    """Every change of a transaction by its key, decoded."""
    assert len({change.key for change in changes}) == len(changes)
    return {change.key: None if change.value is None else decode_record(Record, change.value) for change in changes}


def ground(*statements):
    """A cluster of three nodes on which these statements have run to their end."""
    base = Ground()
    for statement in statements:
        run(base, statement)
    return base


def run(base, statement, **context):
    procedure = base.begin(statement, **context)
    if procedure is not None:
        if procedure.hides:
            base.commit(ddl.finish(procedure, base.catalog))
        close(base, procedure)
    return procedure


def close(base, procedure):
    return base.commit(ddl.close(procedure, base.catalog, barrier=receipt(base.catalog.revision), elapsed_ns=5))


def began(base, statement, *hides, **context):
    """What the first transaction of any statement writes besides its own change, and how many objects it makes."""
    counters = base.catalog.counters
    number = counters.next_procedure
    request = base.request(statement, **context)
    begun = ddl.begin(request, base.catalog)
    claimed = claims(statement)
    views = [base.catalog.views[one.view] for one in hides if isinstance(one, HiddenView)]
    procedure = ProcedureRecord(
        number=number,
        statement=request.id,
        text=request.text,
        step=Step.PRE_STATE if hides else Step.PUBLISHED,
        claims={**claimed, **{table_name(base.catalog.table_name(one)): Claim.EXCLUSIVE for one in views}},
        hides=hides,
    )
    assert begun.procedure == procedure
    changes = written(begun.changes)
    assert changes.pop(keys.procedure(number)) == procedure
    assert changes.pop(keys.statement(request.id)) == StatementRecord(
        id=request.id,
        order=number,
        text=request.text,
        outcome=Outcome.RUNNING,
        revision=None,
        elapsed_ns=0,
        bound_ns=4_000,
        barriers=(),
        pending=(),
        user=context.get("user") if base.catalog.users else None,
        objects=tuple(sorted(claimed.keys() - {VIEWS})),
        dropped=tuple(one.table for one in hides if isinstance(one, HiddenTable)),
        login=request.context.login,
        text_sha256=request.text_sha256,
    )
    after = changes.pop(keys.COUNTERS)
    assert after == msgspec.structs.replace(counters, next_procedure=number + 1, next_object=after.next_object)
    return changes, after.next_object - counters.next_object


def finished(procedure):
    """The procedure past its point of no return."""
    return msgspec.structs.replace(procedure, step=Step.FINISHED)


def view(number, *needs, name=None, database=1, **fields):
    """A view that reads `needs`: pairs of an object and its fields."""
    whole = ViewRecord(
        id=number,
        database=database,
        name=name or f"v{number}",
        state=UseState.IN_USE,
        body="SELECT 1",
        columns=(ViewColumn(name="a", type="INT"),),
        needs=tuple(Need(object=one, fields=fields_of) for one, fields_of in needs),
    )
    return msgspec.structs.replace(whole, **fields)


def field(number, name, state=UseState.IN_USE, **how):
    return Field(**{"id": number, "name": name, "type": "INT", "nullable": True, "state": state, **how})


def table(**fields):
    whole = TableRecord(
        id=2,
        database=1,
        name="t",
        state=UseState.IN_USE,
        schema_version=1,
        fields=(field(1, "a"), field(2, "b")),
        next_field=3,
        cluster_by=None,
        buckets=1,
        replication=2,
        ttl_ns=None,
        time_column=None,
        properties={},
    )
    return msgspec.structs.replace(whole, **fields)
