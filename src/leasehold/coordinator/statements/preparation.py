"""What the plan of a statement needs besides the catalog."""

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from leasehold.coordinator.user_turns import UserTurns
from leasehold.coordinator.writer import Writer
from leasehold.core.access.rights import check_statement, user_by
from leasehold.core.catalog.plan import Context
from leasehold.core.membership.removal import find_node
from leasehold.core.replicas.census import census
from leasehold.core.words.statements import (
    AlterNode,
    AlterProperties,
    CreateTable,
    CreateToken,
    CreateUser,
    CreateView,
    Definition,
    SetCertificate,
    SetPassword,
)
from leasehold.ids import NodeId, StatementId, Term
from leasehold.sql.views import PreparedView, resolve


class ParsedStatement(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed statement of a client. `login` is the hash of its login token; `text` contains no secret. `size_bytes`
    is what its text and parsed form take in memory."""

    id: StatementId
    text: str
    statement: Definition
    size_bytes: int
    login: bytes | None = None
    timeout_ns: int | None = None
    term: Term | None = None
    """As in `Execute`."""
    view: PreparedView | None = None
    """That of a CREATE VIEW, unless its user lacks a right."""


class Preparing:
    """Prepares the statements of one leader. `wall_us` reads the believed wall clock. New tables are placed on nodes
    that are `serving` on disks that are not `failing`, and not `leaving`; `hashed` hashes a password."""

    def __init__(
        self,
        writer: Writer,
        turns: UserTurns,
        *,
        wall_us: Callable[[], int],
        serving: Callable[[], list[NodeId]],
        leaving: Callable[[], frozenset[NodeId]],
        failing: Callable[[], frozenset[NodeId]],
        hashed: Callable[[str], Awaitable[str]],
    ) -> None:
        self._writer = writer
        self._turns = turns
        self._wall_us = wall_us
        self._serving = serving
        self._leaving = leaving
        self._failing = failing
        self._hashed = hashed

    async def context(self, asked: ParsedStatement, *, explains: bool = False) -> Context:
        """The slow part. The objects that the statement uses must not change until it is decided. A statement that is
        only explained needs no password hash."""
        statement, catalog, login = asked.statement, self._writer.catalog, asked.login
        match statement:
            case CreateUser() | SetPassword() if explains:
                return Context(login=login, password_hash="")
            case CreateUser() | SetPassword():
                check_statement(statement, catalog, login)  # before the work of hashing
                return Context(login=login, password_hash=await self._hashed(statement.password))
            case CreateView():
                check_statement(statement, catalog, login)
                # Not on the loop that grants leases: even a short text may take long.
                if asked.view is not None and asked.view.is_of(statement, catalog):
                    return Context(login=login, view=asked.view.view())
                look = partial(resolve, statement, catalog)
                if explains:  # in its turn already
                    return Context(login=login, view=await self._turns.threads.run(look))
                user = user_by(login, catalog)
                return Context(login=login, view=await self._turns.compute(user, look, request=None, is_first=True))
            case AlterNode(node=name, drains=True):
                check_statement(statement, catalog, login)
                node = find_node(name, None, catalog)
                if node.removed or node.id in self._serving():
                    return Context(login=login)
                found = await self._turns.threads.run(partial(census, node.id, catalog))
                return Context(login=login, alone=found.lost_tables())
            case _:
                return Context(login=login)

    def as_of_now(self, context: Context, statement: Definition) -> Context:
        """Adds to the context what may change at any moment."""
        match statement:
            case CreateTable():
                failing = self._failing()
                serving = tuple(node for node in self._serving() if node not in failing)
                return msgspec.structs.replace(context, serving=serving, leaving=self._leaving())
            case AlterNode():
                return msgspec.structs.replace(context, serving=tuple(self._serving()), leaving=self._leaving())
            case CreateToken() | SetCertificate():
                return msgspec.structs.replace(context, wall_us=self._wall_us())
            case AlterProperties():
                return msgspec.structs.replace(context, wall_us=self._wall_us(), leaving=self._leaving())
            case _:
                return context
