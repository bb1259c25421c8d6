"""Clients that change the catalog by random statements on few names, and the checks of their answers.

Each client remembers what it asked and what it heard. Some statements get a timeout, and other clients cancel some. In
the end every statement is asked for once more by its id, and a plain model of the catalog takes the acknowledged ones
in the order of their revisions (INV-DDL-1).
"""

import asyncio
import contextlib
from collections.abc import Callable
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final, TypeAlias

import msgspec

from leasehold.core.data.asking import Asking
from leasehold.core.data.coordinator_client import Deadline
from leasehold.core.data.statement_calls import ask_statement, run_statement
from leasehold.core.words.messages import AskOutcome, Execute, Receipt, Rows
from leasehold.core.words.records import Outcome
from leasehold.core.words.statements import Definition
from leasehold.error_codes import ErrorCode
from leasehold.errors import CheckFailed, Definite, OutcomeUnknown, Unreachable
from leasehold.ids import LoginToken, StatementId
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.catalog import Model, parsed
from leasehold.testing.catalog_rows import TableRow
from leasehold.testing.cluster import CLIENT, SimulatedCluster
from leasehold.testing.statements import some_statement

PATIENCE_S: Final = 90.0
"""How long a question after the faults may take: everything is up by then."""
PATIENCES_S: Final = (0.5, 5.0, 20.0)
CLIENT_PAUSE_MAX_S: Final = 8.0
TIMEOUT_CHANCE: Final = 0.2
TIMEOUTS_NS: Final = (200 * MILLISECOND_NS, 2 * SECOND_NS, 6 * SECOND_NS)
CANCEL_CHANCE: Final = 0.1
TAKEN_MAX_S: Final = 0.5
GIVEN_MAX_S: Final = 3.0


NotDone: TypeAlias = Definite | Unreachable
"""A statement did not happen: it was refused, or no coordinator has taken it."""


class ClientStatement(msgspec.Struct, kw_only=True):
    """A statement and what its client heard of it: a receipt, that it did not happen, or nothing (None)."""

    id: StatementId
    text: str
    asked_ns: int = 0
    answered_ns: int = 0
    """When its client heard that; 0 where it was found out later."""
    heard: Receipt | NotDone | None = None

    @property
    def nothing_done(self) -> bool:
        """Whether its receipt may say that there was nothing to do, or says that it was rolled back."""
        if not isinstance(self.heard, Receipt) or self.heard.outcome is Outcome.COMMITTED_PENDING:
            return False
        return self.heard.outcome is Outcome.ROLLED_BACK or not self.heard.settled


OnEnd: TypeAlias = Callable[[ClientStatement, Receipt | NotDone], None]
"""Told each time a statement's end is heard."""


async def ask(
    cluster: SimulatedCluster, request: Execute | AskOutcome, *, patience_s: float, host: str = CLIENT
) -> Receipt | Rows | None:
    """Asks coordinators until one answers definitely; None when patience ends. Raises the refusal."""
    client = cluster.client(host, token=request.login)

    async def attempt(address: str, deadline: Deadline) -> Receipt | Rows:
        return await ask_statement(client, address, request, deadline)

    try:
        return await client.until_answered(attempt, Asking(round(patience_s * SECOND_NS)))
    except Unreachable:
        return None


class Client:
    """One of several clients that run at the same time; `asked` gathers their statements."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        random: Random,
        asked: list[ClientStatement],
        on_end: OnEnd,
        login: LoginToken | None = None,
    ) -> None:
        self._login = login
        self._cluster = cluster
        self._client = cluster.client(token=login)
        self._random = random
        self._asked = asked
        self._on_end = on_end

    async def run(self) -> None:
        """Asks one statement after the other, for ever; it gives up on some after a short while."""
        while True:
            if self._random.random() < CANCEL_CHANCE:
                await self._cancel()
            else:
                await self.ask(
                    some_statement(self._random, people=self._login is not None),
                    patience_s=self._random.choice(PATIENCES_S),
                    timeout_ns=self._random.choice(TIMEOUTS_NS) if self._random.random() < TIMEOUT_CHANCE else None,
                )
            await asyncio.sleep(self._random.random() * CLIENT_PAUSE_MAX_S)

    async def ask(self, text: str, *, patience_s: float, timeout_ns: int | None = None) -> Receipt | None:
        """Asks one statement until it ends, patience ends or its timeout passes; returns its receipt."""
        cluster = self._cluster
        one = ClientStatement(id=StatementId(cluster.entropy.hex_128()), text=text, asked_ns=cluster.loop.now_ns())
        self._asked.append(one)
        try:
            answer = await self._run(one.id, text, patience_s, timeout_ns)
        except (Definite, Unreachable) as error:
            if error.code == ErrorCode.INTERNAL:
                raise CheckFailed(f"the coordinator failed on {text}: {error}") from error
            one.heard = error
        else:
            assert not isinstance(answer, Rows), "it is no question"
            one.heard = answer
        if one.heard is not None:
            one.answered_ns = cluster.loop.now_ns()
            self._on_end(one, one.heard)
        return one.heard if isinstance(one.heard, Receipt) else None

    async def take_and_give_back(self, ways: tuple[tuple[str, ...], ...]) -> None:
        """For ever, removes what a running reader needs by the first statement of one of `ways`, and restores it by the
        others."""
        while True:
            taking, *giving = self._random.choice(ways)
            await self.ask(taking, patience_s=self._random.choice(PATIENCES_S))
            await asyncio.sleep(self._random.random() * TAKEN_MAX_S)
            for text in giving:
                await self.ask(text, patience_s=self._random.choice(PATIENCES_S))
            await asyncio.sleep(self._random.random() * GIVEN_MAX_S)

    async def _cancel(self) -> None:
        """Cancels one of the running procedures, if there are any."""
        patience_s = self._random.choice(PATIENCES_S)
        with contextlib.suppress(Definite, Unreachable):
            shown = await self._question("SHOW PROCEDURES", patience_s)
            numbers = [row[0] for row in shown.rows if row[0] is not None] if isinstance(shown, Rows) else []
            if numbers:
                await self._question(f"CANCEL PROCEDURE {self._random.choice(numbers)}", patience_s)

    async def _question(self, text: str, patience_s: float) -> Receipt | Rows | None:
        return await self._run(StatementId(self._cluster.entropy.hex_128()), text, patience_s)

    async def _run(
        self, statement: StatementId, text: str, patience_s: float, timeout_ns: int | None = None
    ) -> Receipt | Rows | None:
        asking = Asking(timeout_ns or round(patience_s * SECOND_NS))
        try:
            return await run_statement(self._client, text, statement, asking, has_timeout=timeout_ns is not None)
        except OutcomeUnknown:
            return None


# ---------------------------------------------------------------- what it must come to


async def check_outcomes(
    cluster: SimulatedCluster, asked: list[ClientStatement], on_end: OnEnd, login: LoginToken | None
) -> None:
    """Asks once more for each statement, by its id alone. Raises `CheckFailed` where that is not what was heard."""
    for one in asked:
        try:
            again = await ask(
                cluster, AskOutcome(cluster_id=None, statement=one.id, login=login), patience_s=PATIENCE_S
            )
        except Definite as error:
            on_end(one, error)
            # It is not known where it changed nothing: refused, or nothing to do, or it never reached a leader.
            forgotten = error.code == ErrorCode.NO_STATEMENT
            if isinstance(one.heard, Receipt) and not (forgotten and one.nothing_done):
                raise _differs(one, error) from error
            continue
        if isinstance(again, Receipt):
            on_end(one, again)
        if (
            not isinstance(again, Receipt)
            or again.outcome is Outcome.RUNNING
            or isinstance(one.heard, Definite | Unreachable)
        ):
            raise _differs(one, again)
        if one.heard is not None and (one.heard.revision, one.heard.outcome) != (again.revision, again.outcome):
            raise _differs(one, again)
        one.heard = again


def _differs(one: ClientStatement, again: object) -> CheckFailed:
    return CheckFailed(f"INV-DDL-1: {one.text} ({one.id}) was told {one.heard!r}, asked again {again!r}")


async def check_catalog(
    cluster: SimulatedCluster,
    asked: list[ClientStatement],
    login: LoginToken | None,
    *,
    wrote: Callable[[StatementId], bool],
) -> None:
    """Compares SHOW and DESCRIBE with a model of the acknowledged statements; `wrote` tells which of these changed
    anything. Raises `CheckFailed`."""
    model = Model()
    heard = [(one, one.heard) for one in asked if isinstance(one.heard, Receipt) and wrote(one.id)]
    done = [(one, receipt) for one, receipt in heard if receipt.outcome is not Outcome.ROLLED_BACK]
    for one, _ in sorted(done, key=lambda each: each[1].revision or 0):
        try:
            statement = parsed(one.text)
            assert isinstance(statement, Definition)
            model.apply(one.id, statement)
        except (AssertionError, KeyError, ValueError) as error:
            raise CheckFailed(f"INV-DDL-1: {one.text} was acknowledged where it was not possible") from error
    tables = {f"{key[1]}.{key[2]}": one for key, one in model.shown.items() if isinstance(one, TableRow)}
    shown = {f"{row[0]}.{row[1]}" for row in await _rows(cluster, "SHOW TABLES", login)}
    if shown != set(tables):
        raise CheckFailed(f"INV-DDL-1: SHOW TABLES says {sorted(shown)}, acknowledged were {sorted(tables)}")
    for name, table in sorted(tables.items()):
        found = [str(row[0]) for row in await _rows(cluster, f"DESCRIBE {name}", login)]
        if found != [column.name for column in table.columns]:
            raise CheckFailed(f"INV-DDL-1: {name} has {found}, acknowledged were {table.columns}")


async def _rows(
    cluster: SimulatedCluster, text: str, login: LoginToken | None
) -> tuple[tuple[str | int | bool | None, ...], ...]:
    request = Execute(cluster_id=None, statement=StatementId(cluster.entropy.hex_128()), text=text, login=login)
    answer = await ask(cluster, request, patience_s=PATIENCE_S)
    if not isinstance(answer, Rows):
        raise CheckFailed(f"liveness: {text} got no answer within {PATIENCE_S:.0f} s after all was healed")
    return answer.rows
