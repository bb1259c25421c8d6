"""What the plan of a statement needs besides the catalog, found out before it is decided."""

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from leasehold.coordinator.writer import Writer
from leasehold.core.access.rights import check_statement
from leasehold.core.catalog.plan import Context
from leasehold.core.words.statements import (
    AlterProperties,
    CreateTable,
    CreateUser,
    CreateView,
    Definition,
    SetPassword,
)
from leasehold.ids import NodeId, StatementId
from leasehold.sql.views import resolve
from leasehold.wire.ports import Clock, Threads


class ParsedStatement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement as a client asks for it, parsed; `login` is the hash of the one it came with. No secret is left in
    `text`."""

    id: StatementId
    text: str
    statement: Definition
    login: bytes | None = None
    timeout_ns: int | None = None


class Preparing:
    """For one leader. `serving` tells which nodes hold a lease, and `leaving` which are about to be removed, to place
    new tables; `hashed` makes of a password what is stored of it."""

    def __init__(
        self,
        writer: Writer,
        clock: Clock,
        threads: Threads,
        *,
        serving: Callable[[], list[NodeId]],
        leaving: Callable[[], frozenset[NodeId]],
        hashed: Callable[[str], Awaitable[str]],
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._threads = threads
        self._serving = serving
        self._leaving = leaving
        self._hashed = hashed

    async def context(self, asked: ParsedStatement) -> Context:
        """What takes a while; what the statement uses must stay as it is until it is decided."""
        if isinstance(asked.statement, CreateUser | SetPassword):
            # Before any work is done for it.
            check_statement(asked.statement, self._writer.catalog, asked.login)
            hashed = await self._hashed(asked.statement.password)
            return Context(login=asked.login, password_hash=hashed)
        return await self.context_to_explain(asked)

    async def context_to_explain(self, asked: ParsedStatement) -> Context:
        """As `context`, where the statement won't be run: no password is hashed for it."""
        statement, catalog = asked.statement, self._writer.catalog
        match statement:
            case CreateUser() | SetPassword():
                return Context(login=asked.login, password_hash="")
            case CreateView():
                check_statement(statement, catalog, asked.login)
                # Not on the loop that grants leases: a short text may take long.
                view = await self._threads.run(partial(resolve, statement, catalog))
                return Context(login=asked.login, view=view)
            case _:
                return Context(login=asked.login)

    def as_of_now(self, context: Context, statement: Definition) -> Context:
        """With what may change from one moment to the next."""
        match statement:
            case CreateTable():
                return msgspec.structs.replace(context, serving=tuple(self._serving()), leaving=self._leaving())
            case AlterProperties():
                return msgspec.structs.replace(context, wall_us=self._clock.wall_us())
            case _:
                return context
