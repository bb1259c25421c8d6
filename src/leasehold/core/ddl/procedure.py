"""DDL: each statement as a durable, resumable procedure (docs/design.md, "Schema changes").

Theory of operation. The first transaction writes the change (or its pre-state), the procedure and the statement, at
revision R. Then barrier(R) proves that no node serves anything older. A destructive statement then crosses its **point
of no return** in a second transaction, which compares the pre-state. A later leader resumes a procedure where its
record stands.

| kind        | transaction 1             | then       | transaction 2                  | if the timeout comes first |
| additive    | the change, PUBLISHED     | barrier(R) | none; the answer needs no more | COMMITTED_PENDING          |
| destructive | PRE_DELETE with PRE_STATE | barrier(R) | what was hidden goes, FINISHED | ROLLED_BACK                |

A last transaction writes the receipt of a statement that went all the way, after the answer. An end that another leader
would not come to by itself (a timeout, CANCEL) is durable before it is answered.

The removal and the point of no return are one transaction
(docs/decisions/0001-one-transaction-past-the-point-of-no-return.md). No statement waits for files to be deleted.
"""

import msgspec

from leasehold.core.access.rights import check_hidden, check_statement
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context, put
from leasehold.core.ddl.claims import VIEWS, claims, table_name
from leasehold.core.ddl.origin import beginning, other_statement
from leasehold.core.ddl.plans import plan, removed, restored
from leasehold.core.words import keys, records
from leasehold.core.words.operations import Change
from leasehold.core.words.records import BarrierReceipt, Claim, Outcome, ProcedureRecord, StatementRecord, Step, Waited
from leasehold.core.words.statements import Definition
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound, Refused
from leasehold.ids import NodeId, Revision, StatementId, Term, TransactionId


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A statement as it was asked for; `bound_ns` is what is published for it, and `text` has no secrets."""

    id: StatementId
    text: str
    statement: Definition
    bound_ns: int
    context: Context = Context()
    term: Term = Term(0)
    text_sha256: bytes = b""
    """Of the whole text, where `text` is its beginning."""
    waited: Waited | None = None
    """Before this."""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """The first transaction of a statement: `procedure` None means there is nothing to do (IF [NOT] EXISTS)."""

    changes: tuple[Change, ...]
    procedure: ProcedureRecord | None


def begin(request: Request, catalog: Catalog) -> Begun:
    """Plans the first transaction on `catalog`. Raises `Refused` (and its kin) and then nothing changes."""
    asking = check_statement(request.statement, catalog, request.context.login)
    if TransactionId(request.id) in catalog.transactions:
        raise other_statement()
    planned = plan(request.statement, catalog, request.context)
    if planned is None:
        return Begun(changes=(), procedure=None)
    check_hidden(planned.hides, catalog, asking)
    number = planned.counters.next_procedure
    used = claims(request.statement)
    views = (
        table_name(catalog.table_name(catalog.views[one.view]))
        for one in planned.hides
        if isinstance(one, records.HiddenView)
    )
    procedure = ProcedureRecord(
        number=number,
        statement=request.id,
        text=beginning(request.text),
        step=Step.PRE_STATE if planned.hides else Step.PUBLISHED,
        claims={**used, **dict.fromkeys(views, Claim.EXCLUSIVE)},  # those too that go with CASCADE
        hides=planned.hides,
    )
    record = StatementRecord(
        id=request.id,
        order=number,
        text=procedure.text,
        outcome=Outcome.RUNNING,
        revision=None,
        elapsed_ns=0,
        bound_ns=request.bound_ns,
        barriers=(),
        pending=(),
        user=None if asking is None else asking.name,
        objects=tuple(sorted(name for name in used if name != VIEWS)),
        dropped=tuple(one.table for one in planned.hides if isinstance(one, records.HiddenTable)),
        notes=planned.notes,
        term=request.term,
        login=request.context.login,
        text_sha256=request.text_sha256,
        waited=request.waited,
    )
    return Begun(
        changes=(
            *planned.changes,
            put(keys.COUNTERS, msgspec.structs.replace(planned.counters, next_procedure=number + 1)),
            put(keys.procedure(number), procedure),
            put(keys.statement(request.id), record),
        ),
        procedure=procedure,
    )


def finish(procedure: ProcedureRecord, catalog: Catalog) -> tuple[Change, ...]:
    """What a destructive statement writes at its point of no return; nothing if it is past it already.

    Raises `Refused` (ROLLED_BACK) if the statement was rolled back.
    """
    standing = catalog.procedures.get(procedure.number)
    if standing is None:
        record = catalog.statements.get(procedure.statement)
        if record is not None and record.outcome is Outcome.COMMITTED:
            return ()
        raise Refused("the statement was rolled back", code=ErrorCode.ROLLED_BACK, hint="run it again")
    if standing.step is not Step.PRE_STATE:
        return ()
    past = put(keys.procedure(procedure.number), msgspec.structs.replace(standing, step=Step.FINISHED))
    return (*removed(standing.hides, catalog), past)


def roll_back(
    procedure: ProcedureRecord,
    catalog: Catalog,
    *,
    elapsed_ns: int,
    pending: tuple[NodeId, ...] = (),
    forget: tuple[StatementId, ...] = (),
) -> tuple[Change, ...]:
    """Rolls a destructive statement back, nothing if that has been done; `pending` are the nodes that it waited for.

    Raises `Refused` with code PAST_RETURN past its point of no return.
    """
    standing = catalog.procedures.get(procedure.number)
    if standing is None:
        record = catalog.statements.get(procedure.statement)
        if record is not None and record.outcome is Outcome.ROLLED_BACK:
            return ()
    if standing is None or standing.step is not Step.PRE_STATE:
        text = f"procedure {procedure.number} is past its point of no return"
        raise Refused(text, code=ErrorCode.PAST_RETURN, hint="SHOW HISTORY shows its outcome")
    record = catalog.statements[procedure.statement]
    ended = msgspec.structs.replace(
        # The tables stay: if another statement drops them, the nodes that delete their files are that one's.
        record,
        outcome=Outcome.ROLLED_BACK,
        elapsed_ns=elapsed_ns,
        pending=pending,
        dropped=(),
    )
    return (
        *restored(standing.hides, catalog),
        *_end(ended, procedure, forget),
    )


def procedure_to_cancel(number: int, catalog: Catalog) -> ProcedureRecord | None:
    """What CANCEL rolls back; None if that has been done. Raises `NotFound` (NO_PROCEDURE) and `Refused`
    (PAST_RETURN)."""
    record = record_of(number, catalog)
    procedure = catalog.procedures.get(number)
    if procedure is None and record.outcome is Outcome.ROLLED_BACK:
        return None
    if procedure is None or procedure.step is not Step.PRE_STATE:
        hint = "SHOW HISTORY shows its outcome"
        raise Refused(f"its change is already committed: {record.text}", code=ErrorCode.PAST_RETURN, hint=hint)
    return procedure


def record_of(number: int, catalog: Catalog) -> StatementRecord:
    """The statement of a procedure, running or ended. Raises `NotFound` (NO_PROCEDURE)."""
    for record in catalog.statements.values():
        if record.order == number:
            return record
    raise NotFound(
        f"no procedure {number}", code=ErrorCode.NO_PROCEDURE, hint="SHOW PROCEDURES lists the running procedures"
    )


def leave_pending(
    procedure: ProcedureRecord,
    catalog: Catalog,
    *,
    revision: Revision,
    elapsed_ns: int,
    pending: tuple[NodeId, ...],
    forget: tuple[StatementId, ...] = (),
) -> tuple[Change, ...]:
    """Ends an additive statement whose change is committed at `revision` while `pending` may serve older revisions.

    The next statements on its objects wait for those nodes.
    """
    if procedure.number not in catalog.procedures:
        return ()
    assert procedure.step is Step.PUBLISHED, "a statement that removes something is rolled back instead"
    ended = msgspec.structs.replace(
        catalog.statements[procedure.statement],
        outcome=Outcome.COMMITTED_PENDING,
        revision=revision,
        elapsed_ns=elapsed_ns,
        pending=pending,
    )
    return _end(ended, procedure, forget)


def close(
    procedure: ProcedureRecord,
    catalog: Catalog,
    *,
    barrier: BarrierReceipt,
    elapsed_ns: int,
    bound_ns: int = 0,
    forget: tuple[StatementId, ...] = (),
) -> tuple[Change, ...]:
    """Ends a statement that went all the way; as all ends it makes the cluster `forget` older ones."""
    if procedure.number not in catalog.procedures:
        return ()
    return _end(ended(catalog.statements[procedure.statement], barrier, elapsed_ns, bound_ns), procedure, forget)


def _end(record: StatementRecord, procedure: ProcedureRecord, forget: tuple[StatementId, ...]) -> tuple[Change, ...]:
    changes = (Change(keys.procedure(procedure.number), None), put(keys.statement(record.id), record))
    return (*changes, *(Change(keys.statement(one), None) for one in forget))


def ended(record: StatementRecord, barrier: BarrierReceipt, elapsed_ns: int, bound_ns: int = 0) -> StatementRecord:
    """The record of a statement that went all the way.

    `bound_ns` is what the leader that ended it had published, which may be more than what was published at first.
    """
    return msgspec.structs.replace(
        record,
        outcome=Outcome.COMMITTED,
        revision=barrier.revision,
        elapsed_ns=elapsed_ns,
        bound_ns=max(record.bound_ns, bound_ns),
        barriers=(barrier,),
    )


def leader_changes(record: StatementRecord) -> int:
    """How many later leaders took the statement up, as far as its record tells: each of them waits anew."""
    if record.term == 0 or not record.barriers:
        return 0
    return max(0, record.barriers[-1].term - record.term)
