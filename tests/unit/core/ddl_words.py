"""Words that the tests of statements share: clusters on which some have run, and what a transaction wrote."""

import msgspec

from leasehold.core import ddl, keys
from leasehold.core.codec import decode_record
from leasehold.core.records import (
    Field,
    Outcome,
    ProcedureRecord,
    Record,
    StatementRecord,
    Step,
    TableRecord,
    UseState,
)
from leasehold.core.statements import TableName
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


def run(base, statement):
    procedure = base.begin(statement)
    if procedure is not None:
        base.commit(ddl.finish(procedure, base.catalog)) if procedure.kind == "destructive" else None
        close(base, procedure)
    return procedure


def close(base, procedure):
    return base.commit(ddl.close(procedure, base.catalog, barrier=receipt(base.catalog.revision), elapsed_ns=5))


def began(base, statement, kind, target, field=None):
    """What the first transaction of any statement writes besides its own change."""
    counters = base.catalog.counters
    number = counters.next_procedure
    request = base.request(statement)
    begun = ddl.begin(request, base.catalog, (1, 2, 3))
    procedure = ProcedureRecord(
        number=number,
        statement=request.id,
        text=request.text,
        step=Step.PUBLISHED if kind == "additive" else Step.PRE_STATE,
        kind=kind,
        target=target,
        field=field,
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
    )
    after = changes.pop(keys.COUNTERS)
    assert after == msgspec.structs.replace(counters, next_procedure=number + 1, next_object=after.next_object)
    return changes, after.next_object - counters.next_object


def field(number, name, state=UseState.IN_USE):
    return Field(id=number, name=name, type="INT", nullable=True, state=state)


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
