"""Executes the statements of clients: parses and authorises them, runs a procedure or answers at once."""

from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

import msgspec

from leasehold.coordinator.statements.faults import ending_the_statement
from leasehold.coordinator.statements.preparation import ParsedStatement
from leasehold.coordinator.statements.procedures import Procedures
from leasehold.coordinator.user_turns import CoordinatorTurns
from leasehold.coordinator.who_asks import tell_who_asks
from leasehold.core.access.callers import check_caller
from leasehold.core.access.request_rights import check_request
from leasehold.core.access.rights import (
    check_administrator,
    check_large_statement,
    check_question,
    check_statement,
    user_by,
)
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.ddl.origin import Origin, check_same_asker, check_statement_id, hears_text, other_statement
from leasehold.core.ddl.weight import changes_many
from leasehold.core.membership.identity import hash_login
from leasehold.core.questions.catalog import CatalogQuestion, is_large
from leasehold.core.questions.history import history
from leasehold.core.questions.rows import pages
from leasehold.core.words.messages import AskOutcome, Execute, Message, Receipt, Rows
from leasehold.core.words.records import PrincipalRecord
from leasehold.core.words.request_sizes import held_bytes
from leasehold.core.words.statements import (
    AnyStatement,
    CancelProcedure,
    CreateUser,
    CreateView,
    Definition,
    Explain,
    Question,
    SetPassword,
    ShowCoordinators,
    ShowHistory,
    ShowNodes,
    ShowProcedures,
    ShowRepairs,
)
from leasehold.errors import Definite, LeaseholdError
from leasehold.limits.statements import LARGE_STATEMENT_NS
from leasehold.sql.parse import may_take_seconds, parse, parses_at_once
from leasehold.sql.secrets import redacted
from leasehold.sql.views import PreparedView, prepare
from leasehold.wire.ports import CALLER, Clock

T = TypeVar("T")
_Told: TypeAlias = CatalogQuestion | ShowCoordinators | ShowHistory | ShowNodes | ShowProcedures | ShowRepairs


class Answers(Protocol):
    """What answers the questions of people (`coordinator/people/overview.py`)."""

    async def nodes_shown(self) -> tuple[Rows, ...]:
        """The pages of SHOW NODES."""
        ...

    def answer(
        self, question: CatalogQuestion | ShowCoordinators | ShowNodes | ShowRepairs, catalog: Catalog, now_ns: int
    ) -> Rows:
        """The rows of any of them."""
        ...


class Execution:
    """The statements of one leader."""

    def __init__(
        self,
        procedures: Procedures,
        answers: Answers,
        catalog: Callable[[], Catalog],
        clock: Clock,
        turns: CoordinatorTurns,
    ) -> None:
        self._procedures = procedures
        self._answers = answers
        self._catalog = catalog
        self._clock = clock
        self._turns = turns
        self._large = turns.long.another_queue()
        """For statements that change many records."""

    async def execute(self, request: Execute) -> AsyncIterator[Message]:
        """Runs a statement, or answers a question: the messages for the client."""
        check_statement_id(request.statement)
        asking = check_request(request, self._catalog())
        tell_who_asks(asking)
        statement, text, size_bytes = await self._understood(request, asking)
        if isinstance(statement, Definition):
            asked = _asked(request, statement, text, size_bytes)
            if isinstance(statement, CreateView):
                asked = await self._with_view(request, asked, statement, asking)
            if changes_many(statement, self._catalog()):
                begin = partial(self._procedures.begin_and_wait, asked, LARGE_STATEMENT_NS)
                await self._large.run(asking, begin, request=request, more_bytes=asked.size_bytes)
            async for message in self._procedures.execute(asked):
                yield message
            return
        _check_answer(statement, self._catalog(), _login(request))
        if isinstance(statement, CancelProcedure):
            async for message in self._procedures.cancel(statement.number):
                yield message
            return
        with ending_the_statement():
            shown = await self._shown(request, statement, text, size_bytes, asking)
        for page in shown:
            yield page

    async def tell_again(self, request: Execute | AskOutcome, origin: Origin) -> AsyncIterator[Message]:
        """The outcome of a statement that was sent before. Raises `Refused` if this client may not know it."""
        login, catalog, text_told = _login(request), self._catalog(), True
        if isinstance(request, AskOutcome):
            text_told = hears_text(origin, login, catalog)
        else:
            check_same_asker(origin, login, catalog)
            if not origin.has_text(request.text) and not origin.has_text(await self._redacted(request, origin)):
                raise other_statement()
        async for message in self._procedures.outcome(request.statement):
            is_told = text_told or not isinstance(message, Receipt)
            yield message if is_told else msgspec.structs.replace(message, text="")

    async def _redacted(self, request: Execute, origin: Origin) -> str:
        if parses_at_once(request.text):
            return redacted(request.text)
        return await self._read(origin.user, request, redacted)

    async def _understood(self, request: Execute, asking: PrincipalRecord | None) -> tuple[AnyStatement, str, int]:
        text = request.text
        with ending_the_statement():
            if parses_at_once(text):
                return _understood(text)
            # Not on the loop that grants leases.
            if may_take_seconds(text):
                check_large_statement(asking, self._catalog())
            return await self._read(asking, request, _understood)

    async def _read(self, user: PrincipalRecord | str | None, request: Execute, read: Callable[[str], T]) -> T:
        """What `read` makes of a text, on a thread, when it is the turn of this user."""
        text = request.text
        characters = len(text) if may_take_seconds(text) else 0
        return await self._turns.long.compute(user, partial(read, text), request=request, characters=characters)

    async def _with_view(
        self, request: Execute, asked: ParsedStatement, statement: CreateView, asking: PrincipalRecord | None
    ) -> ParsedStatement:
        """The statement with its view, which is resolved in a turn of its user, before others wait for the statement.
        What stands against it is said when it has begun, so that it is remembered."""
        began_ns = self._clock.now_ns()

        async def prepared() -> PreparedView | None:
            catalog = self._catalog()
            check_caller(request, CALLER.get(), catalog)
            try:
                check_statement(statement, catalog, asked.login)
            except Definite:
                return None
            return await self._turns.long.threads.run(partial(prepare, statement, catalog))

        with ending_the_statement():
            view = await self._turns.long.run(asking, prepared, request=request, more_bytes=asked.size_bytes)
        more_bytes = 0 if view is None or isinstance(view.found, LeaseholdError) else held_bytes(view.found)
        timeout_ns = asked.timeout_ns
        if timeout_ns is not None and timeout_ns > 0:
            timeout_ns = max(1, timeout_ns - (self._clock.now_ns() - began_ns))
        return msgspec.structs.replace(
            asked, view=view, size_bytes=asked.size_bytes + more_bytes, timeout_ns=timeout_ns
        )

    async def _shown(
        self,
        request: Execute,
        statement: Question | Explain,
        text: str,
        size_bytes: int,
        asking: PrincipalRecord | None,
    ) -> Iterable[Rows]:
        catalog = self._catalog()
        match statement:
            case ShowNodes():
                return await self._answers.nodes_shown()
            case Explain(statement=definition):
                work = partial(self._explained, request, _asked(request, definition, text, size_bytes))
                rows = await self._turns.long.run(asking, work, request=request, more_bytes=size_bytes)
            case _ if is_large(statement, catalog) or (
                isinstance(statement, ShowProcedures) and self._procedures.are_many
            ):
                rows = await self._turns.short.run(asking, partial(self._told, request, statement), request=request)
            case _:
                rows = self._telling(statement, catalog, asking)()
        return pages(rows)

    async def _explained(self, request: Execute, asked: ParsedStatement) -> Rows:
        """How a statement would run that has waited for its turn; as of `_told`."""
        catalog = self._catalog()
        check_caller(request, CALLER.get(), catalog)
        check_statement(asked.statement, catalog, _login(request))
        return await self._procedures.explain(asked)

    async def _told(self, request: Execute, statement: _Told) -> Rows:
        """The rows of a question that has waited for its turn. The user may have been dropped or have lost a right
        meanwhile."""
        catalog = self._catalog()
        check_caller(request, CALLER.get(), catalog)
        _check_answer(statement, catalog, _login(request))
        return await self._turns.short.threads.run(self._telling(statement, catalog, user_by(_login(request), catalog)))

    def _telling(self, statement: _Told, catalog: Catalog, asking: PrincipalRecord | None) -> Callable[[], Rows]:
        """Computes the rows, on any thread."""
        if isinstance(statement, ShowProcedures):
            return self._procedures.telling(catalog, asking)
        if isinstance(statement, ShowHistory):
            return partial(history, self._procedures.done(catalog), statement.of, asking)
        return partial(self._answers.answer, statement, catalog, self._clock.now_ns())


def _check_answer(statement: Question | Explain | CancelProcedure, catalog: Catalog, login: bytes | None) -> None:
    match statement:
        case Explain(statement=definition):
            check_statement(definition, catalog, login)
        case CancelProcedure():
            check_administrator(catalog, login)
        case _:
            check_question(statement, catalog, login)


def _login(request: Execute | AskOutcome) -> bytes | None:
    return None if request.login is None else hash_login(request.login)


def _understood(text: str) -> tuple[AnyStatement, str, int]:
    """A statement, its text without secrets, and how many bytes it takes until it has ended."""
    statement = parse(text)
    definition = statement.statement if isinstance(statement, Explain) else statement
    shown = redacted(text) if isinstance(definition, CreateUser | SetPassword) else text
    return statement, shown, held_bytes((text, shown, statement))


def _asked(request: Execute, statement: Definition, text: str, size_bytes: int) -> ParsedStatement:
    return ParsedStatement(
        id=request.statement,
        text=text,
        statement=statement,
        size_bytes=size_bytes,
        login=_login(request),
        timeout_ns=request.timeout_ns,
        term=request.term,
    )
