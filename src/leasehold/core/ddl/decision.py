"""What the first transaction of a statement is: decided on the catalog of that transaction."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context
from leasehold.core.ddl.origin import Origin
from leasehold.core.ddl.procedure import Request, begin
from leasehold.core.ddl.receipts import timed_out
from leasehold.core.words.operations import Change
from leasehold.core.words.records import Claim, ProcedureRecord, Waited
from leasehold.core.words.statements import Definition
from leasehold.ids import Revision, StatementId, Term


class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """A statement at its turn: what it uses is settled as of the revision `settled`."""

    id: StatementId
    origin: Origin
    statement: Definition
    context: Context
    term: Term
    waited: Waited | None
    settled: Revision
    give_up_ns: int | None


class Begins(msgspec.Struct, frozen=True, kw_only=True):
    """It writes `changes`; `bound_ns` is what was published for a statement that is decided then."""

    procedure: ProcedureRecord
    changes: tuple[Change, ...]
    bound_ns: int


class NothingToDo(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing has to change."""

    bound_ns: int


class TooEarly(msgspec.Struct, frozen=True, kw_only=True):
    """The plan uses `claims`, of which some have changed and are not settled: nothing is written yet."""

    claims: dict[str, Claim]


Decision: TypeAlias = Begins | NothingToDo | TooEarly


def decide_first_transaction(
    undecided: Undecided,
    catalog: Catalog,
    now_ns: int,
    *,
    bound_ns: int,
    last_change: Callable[[Mapping[str, Claim]], Revision],
) -> Decision:
    """`bound_ns` is what is published now, `last_change` the newest revision that changed any of some objects.

    May be asked more than once. Raises `Refused` and its kin.
    """
    if undecided.give_up_ns is not None and now_ns >= undecided.give_up_ns:
        raise timed_out("what came before it took as long")
    request = Request(
        id=undecided.id,
        text=undecided.origin.text,
        statement=undecided.statement,
        bound_ns=bound_ns,
        context=undecided.context,
        term=undecided.term,
        text_sha256=undecided.origin.text_sha256,
        waited=undecided.waited,
    )
    begun = begin(request, catalog)
    if begun.procedure is None:
        return NothingToDo(bound_ns=bound_ns)
    # What a CASCADE takes along was in no queue of it, and may have been changed a moment ago.
    if last_change(begun.procedure.claims) > undecided.settled:
        return TooEarly(claims=begun.procedure.claims)
    return Begins(procedure=begun.procedure, changes=begun.changes, bound_ns=bound_ns)
