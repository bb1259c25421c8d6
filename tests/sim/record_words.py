"""Records of hand-made histories, each with what a history seldom cares about filled in."""

import hashlib

from leasehold.core.membership.identity import hash_secret
from leasehold.core.words import keys
from leasehold.core.words.messages import Receipt
from leasehold.core.words.records import (
    BucketRecord,
    ColumnStatistics,
    Comparison,
    CountersRecord,
    DatabaseRecord,
    DeleteRecord,
    DroppedRecord,
    Field,
    GrantRecord,
    HiddenTable,
    LoginRecord,
    NodeRecord,
    Outcome,
    PrincipalKind,
    PrincipalRecord,
    ProcedureRecord,
    Right,
    SegmentRecord,
    StatementRecord,
    Step,
    TableRecord,
    TransactionRecord,
    TransactionState,
    UseState,
    ViewRecord,
)
from leasehold.testing.leases.ground import SETTINGS

SECOND_NS = 1_000_000_000
TOKEN_HASH = bytes(32)
"""Of the one login there is."""
IN_USE, PRE_DELETE = UseState.IN_USE, UseState.PRE_DELETE


def hex_128(number):
    return f"{number:032x}"


def segment_id(transaction, number=1):
    return f"{hex_128(transaction)}-{hex_128(number)}"


def node(number=1, token=None, incarnation=0, session=None):
    return NodeRecord(
        id=number,
        name=f"n{number}",
        address=f"n{number}:9000",
        token_hash=hash_secret(hex_128(token or number)),
        incarnation=incarnation,
        nonce=None,
        session_hash=session,
        removed=False,
    )


def counters(next_node=9):
    return CountersRecord(next_node=next_node, next_object=9, next_procedure=9, next_transaction=9)


def field(number, kind="INT", state=IN_USE, *, nullable=True):
    return Field(id=number, name=f"c{number}", type=kind, nullable=nullable, state=state)


def table(version=1, state=IN_USE, fields=None):
    return TableRecord(
        id=5,
        database=4,
        name="t",
        state=state,
        schema_version=version,
        fields=(field(1), field(2)) if fields is None else fields,
        next_field=3,
        cluster_by=None,
        buckets=1,
        replication=2,
        ttl_ns=None,
        time_column=None,
        properties={},
    )


def bucket(*replicas, in_sync=None):
    return BucketRecord(table=5, bucket=0, replicas=replicas, in_sync=replicas if in_sync is None else in_sync)


def dropped(*pending):
    return DroppedRecord(table=5, name="d.t", pending=pending)


def statistics(*fields):
    return tuple(ColumnStatistics(field=one, nulls=0, minimum=None, maximum=None) for one in fields)


def segment(transaction=7, number=1, *, holders=(1, 2), rows=10, version=1, fields=(1, 2)):
    return SegmentRecord(
        id=segment_id(transaction, number),
        table=5,
        bucket=0,
        schema_version=version,
        rows=rows,
        size_bytes=100,
        sha256=hashlib.sha256(b"").digest(),
        statistics=statistics(*fields),
        holders=holders,
    )


def transaction(state=TransactionState.COMMITTED, number=7, *, rows=10, version=1):
    return TransactionRecord(id=hex_128(number), order=1, table=5, schema_version=version, state=state, rows=rows)


TEXT = "DELETE FROM d.t WHERE c1 = 1"
"""Of the statement of most histories, whatever it hides: the model of the catalog makes nothing of it, as no catalog
shows a table without its database."""


HIDES = (HiddenTable(table=5),)


def procedure(step=Step.PRE_STATE, hides=HIDES, text=TEXT, number=1, claims=None):
    return ProcedureRecord(
        number=number, statement=hex_128(number), text=text, step=step, claims=claims or {}, hides=hides
    )


def statement(outcome=Outcome.RUNNING, revision=None, bound_ns=4 * SECOND_NS, text=TEXT, number=1):
    return StatementRecord(
        id=hex_128(number),
        order=number,
        text=text,
        outcome=outcome,
        revision=revision,
        elapsed_ns=0,
        bound_ns=bound_ns,
        barriers=(),
        pending=(),
    )


def receipt(outcome=Outcome.COMMITTED, revision=1, elapsed_ns=SECOND_NS, bound_ns=4 * SECOND_NS):
    return Receipt(
        statement_id=hex_128(1),
        text=TEXT,
        revision=revision,
        outcome=outcome,
        elapsed_ns=elapsed_ns,
        bound_ns=bound_ns,
        settled=(),
        pending=(),
        cleaning=(),
    )


def database(number=4, name="d", state=IN_USE):
    return DatabaseRecord(id=number, name=name, state=state)


def view(state=IN_USE, database=4):
    return ViewRecord(id=6, database=database, name="v", state=state, body="", columns=(), needs=())


def principal(number=1, name="u", kind=PrincipalKind.USER, state=IN_USE, roles=(), leaving=(), secret="secret"):
    secret = secret if kind is PrincipalKind.USER else None
    return PrincipalRecord(
        id=number, name=name, kind=kind, state=state, password_hash=secret, roles=roles, leaving=leaving
    )


def grant(who=1, on=0, rights=tuple(Right), leaving=()):
    return GrantRecord(object=on, principal=who, rights=rights, leaving=leaving)


def login(user=1):
    return LoginRecord(token_hash=TOKEN_HASH, user=user, order=1)


def delete(number=1, value="3", state=IN_USE):
    return DeleteRecord(table=5, number=number, state=state, where=(Comparison(field=1, operator="=", value=value),))


KEYS = {
    DatabaseRecord: lambda one: keys.database(one.id),
    ViewRecord: lambda one: keys.view(one.id),
    PrincipalRecord: lambda one: keys.principal(one.id),
    GrantRecord: lambda one: keys.grant(one.object, one.principal),
    LoginRecord: lambda one: keys.login(one.token_hash),
    DeleteRecord: lambda one: keys.delete(one.table, one.number),
    NodeRecord: lambda one: keys.node(one.id),
    CountersRecord: lambda one: keys.COUNTERS,
    TableRecord: lambda one: keys.table(one.id),
    BucketRecord: lambda one: keys.bucket(one.table, one.bucket),
    SegmentRecord: lambda one: keys.segment(one.table, one.bucket, one.id),
    TransactionRecord: lambda one: keys.transaction(one.id),
    ProcedureRecord: lambda one: keys.procedure(one.number),
    StatementRecord: lambda one: keys.statement(one.id),
    DroppedRecord: lambda one: keys.dropped(one.table),
    type(SETTINGS): lambda one: keys.SETTINGS,
}


def key_of(record):
    return KEYS[type(record)](record)
