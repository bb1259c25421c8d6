"""Clients that change the catalog: random statements on few names, and what the answers must come to.

Each client remembers what it asked and what it heard. In the end every statement is asked for once more by its id, and
a plain model of the catalog takes the acknowledged ones in the order of their revisions (INV-DDL-1).
"""

import asyncio
from collections.abc import Callable
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final, TypeAlias

import msgspec

from leasehold.core.messages import AskOutcome, Execute, Message, Receipt, Rows, WaitingFor
from leasehold.core.records import Outcome
from leasehold.errors import CheckFailed, Definite, Indefinite, NotInitialised, NotLeader
from leasehold.ids import StatementId
from leasehold.limits import SECOND_NS
from leasehold.testing.cluster import CLIENT, SimulatedCluster

DATABASES: Final = ("d1", "d2")
TABLES: Final = ("t1", "t2")
COLUMNS: Final = ("a", "b", "c")
ATTEMPT_NS: Final = 6 * SECOND_NS
TURN_S: Final = 0.1
PATIENCE_S: Final = 90.0
"""How long a question after the faults may take: everything is up by then."""
PATIENCES_S: Final = (0.5, 5.0, 20.0)
CLIENT_PAUSE_MAX_S: Final = 4.0
DURATIONS: Final = ("2s", "3s", "5s")
IN_SYNC: Final = (1, 2)
"""As many as tables have replicas, at most."""


class Asked(msgspec.Struct, kw_only=True):
    """A statement and what its client heard of it: a receipt, a definite refusal, or nothing (None)."""

    id: StatementId
    text: str
    heard: Receipt | Definite | None = None

    @property
    def nothing_done(self) -> bool:
        """Whether its receipt says that there was nothing to do."""
        return isinstance(self.heard, Receipt) and not self.heard.settled


OnEnd: TypeAlias = Callable[[Asked, "Receipt | Definite"], None]
"""Told each time a statement's end is heard."""


async def ask(
    cluster: SimulatedCluster, request: Execute | AskOutcome, *, patience_s: float, host: str = CLIENT
) -> Receipt | Rows | None:
    """Asks one coordinator after the other for a definite answer; None when patience ends. Raises the refusal."""
    give_up_ns = cluster.loop.now_ns() + round(patience_s * SECOND_NS)
    turn = 0
    while cluster.loop.now_ns() < give_up_ns:
        connection = cluster.network.host(host).connect(cluster.addresses[turn % len(cluster.addresses)])
        try:
            async for message in connection.stream(request, timeout_ns=ATTEMPT_NS):
                if not isinstance(message, WaitingFor):
                    return _answer(message)
        except (Indefinite, NotInitialised, NotLeader):
            turn += 1
            await asyncio.sleep(TURN_S)
        finally:
            await connection.close()
    return None


def _answer(message: Message) -> Receipt | Rows:
    assert isinstance(message, Receipt | Rows)
    return message


def some_statement(random: Random) -> str:
    """One of the statements that few names leave in each other's way."""
    database, table = random.choice(DATABASES), random.choice(TABLES)
    column = random.choice(COLUMNS)
    name = f"{database}.{table}"
    choices = (
        (1, f"CREATE DATABASE {database}"),
        (1, f"CREATE DATABASE IF NOT EXISTS {database}"),
        (1, f"DROP DATABASE {database}"),
        (2, f"CREATE TABLE {name} (a INT, b INT)"),
        (2, f"CREATE TABLE {name} (a INT, b INT) CLUSTERED BY (a) INTO 2 BUCKETS"),
        (1, f"CREATE TABLE IF NOT EXISTS {name} (a INT, b INT)"),
        (1, f"DROP TABLE {name}"),
        (0.5, f"DROP TABLE IF EXISTS {name}"),
        (3, f"ALTER TABLE {name} ADD COLUMN {column} INT"),
        (2, f"ALTER TABLE {name} DROP COLUMN {column}"),
        (1, f"ALTER TABLE {name} RENAME COLUMN {column} TO {random.choice(COLUMNS)}"),
        (1, f"ALTER CLUSTER SET lease_duration = '{random.choice(DURATIONS)}'"),
        (0.5, f"ALTER CLUSTER SET min_in_sync = {random.choice(IN_SYNC)}"),
    )
    weights, texts = zip(*choices, strict=True)
    return random.choices(texts, weights)[0]


class Client:
    """One of several that run at the same time; what all asked is gathered in `asked`."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        random: Random,
        asked: list[Asked],
        on_end: OnEnd,
    ) -> None:
        self._cluster = cluster
        self._random = random
        self._asked = asked
        self._on_end = on_end

    async def run(self) -> None:
        """Asks one statement after the other, for ever; some are left after a short while, whatever becomes of them."""
        while True:
            await self.ask(some_statement(self._random), patience_s=self._random.choice(PATIENCES_S))
            await asyncio.sleep(self._random.random() * CLIENT_PAUSE_MAX_S)

    async def ask(self, text: str, *, patience_s: float) -> None:
        """One statement, to its end or until patience ends."""
        cluster = self._cluster
        one = Asked(id=StatementId(cluster.entropy.hex_128()), text=text)
        self._asked.append(one)
        request = Execute(cluster_id=None, statement=one.id, text=text)
        try:
            answer = await ask(cluster, request, patience_s=patience_s)
        except Definite as error:
            one.heard = error
        else:
            assert not isinstance(answer, Rows), "it is no question"
            one.heard = answer
        if one.heard is not None:
            self._on_end(one, one.heard)


# ---------------------------------------------------------------- what it must come to


class Model:
    """The catalog as the acknowledged statements make it: `database -> table -> columns`."""

    def __init__(self) -> None:
        self.databases: dict[str, dict[str, list[str]]] = {}

    def take(self, text: str) -> None:
        """Raises `KeyError`, `ValueError` or an assertion where it could not have been acknowledged here."""
        words = text.replace("(", " ").replace(")", " ").replace(",", " ").split()
        match words:
            case ["CREATE", "DATABASE", *_]:
                assert "IF" in words or words[-1] not in self.databases, text
                self.databases.setdefault(words[-1], {})
            case ["DROP", "DATABASE", name]:
                assert not self.databases.pop(name), text
            case ["CREATE", "TABLE", *rest]:
                name = rest[3] if rest[0] == "IF" else rest[0]
                database, table = name.split(".")
                assert rest[0] == "IF" or table not in self.databases[database], text
                self.databases[database].setdefault(table, ["a", "b"])
            case ["DROP", "TABLE", "IF", "EXISTS", name]:
                database, table = name.split(".")
                self.databases.get(database, {}).pop(table, None)
            case ["DROP", "TABLE", name]:
                database, table = name.split(".")
                del self.databases[database][table]
            case ["ALTER", "TABLE", name, *change]:
                self._change(self._columns(name), change, text)
            case ["ALTER", "CLUSTER", *_]:
                pass
            case _:
                raise AssertionError(text)

    def tables(self) -> dict[str, list[str]]:
        """The columns of each table, by its qualified name."""
        return {f"{name}.{table}": columns for name, held in self.databases.items() for table, columns in held.items()}

    def _columns(self, name: str) -> list[str]:
        database, table = name.split(".")
        return self.databases[database][table]

    def _change(self, columns: list[str], change: list[str], text: str) -> None:
        match change:
            case ["ADD", "COLUMN", column, "INT"]:
                assert column not in columns, text
                columns.append(column)
            case ["DROP", "COLUMN", column]:
                columns.remove(column)
                assert columns, text
            case ["RENAME", "COLUMN", old, "TO", new]:
                assert new == old or new not in columns, text
                columns[columns.index(old)] = new
            case _:
                raise AssertionError(text)


async def check_outcomes(cluster: SimulatedCluster, asked: list[Asked], on_end: OnEnd) -> None:
    """Asks once more for each statement, by its id alone. Raises `CheckFailed` where that is not what was heard."""
    for one in asked:
        try:
            again = await ask(cluster, AskOutcome(cluster_id=None, statement=one.id), patience_s=PATIENCE_S)
        except Definite as error:
            on_end(one, error)
            # It is not known where it changed nothing: refused, or nothing to do, or it never reached a leader.
            forgotten = error.code == "NO_STATEMENT"
            if isinstance(one.heard, Receipt) and not (forgotten and one.nothing_done):
                raise _differs(one, error) from error
            continue
        if isinstance(again, Receipt):
            on_end(one, again)
        if not isinstance(again, Receipt) or again.outcome is not Outcome.COMMITTED:
            raise _differs(one, again)
        if isinstance(one.heard, Definite) or (one.heard is not None and one.heard.revision != again.revision):
            raise _differs(one, again)
        one.heard = again


def _differs(one: Asked, again: object) -> CheckFailed:
    return CheckFailed(f"INV-DDL-1: {one.text} ({one.id}) was told {one.heard!r}, asked again {again!r}")


async def check_catalog(cluster: SimulatedCluster, asked: list[Asked]) -> None:
    """Holds the catalog against the model. Raises `CheckFailed`."""
    model = Model()
    done = [(one, one.heard) for one in asked if isinstance(one.heard, Receipt)]
    # What found nothing to do comes after what it found: both may name the same revision.
    for one, _ in sorted(done, key=lambda each: (each[1].revision or 0, each[0].nothing_done)):
        try:
            model.take(one.text)
        except (AssertionError, KeyError, ValueError) as error:
            raise CheckFailed(f"INV-DDL-1: {one.text} was acknowledged where it was not possible") from error
    tables = model.tables()
    shown = {f"{row[0]}.{row[1]}" for row in await _rows(cluster, "SHOW TABLES")}
    if shown != set(tables):
        raise CheckFailed(f"INV-DDL-1: SHOW TABLES says {sorted(shown)}, acknowledged were {sorted(tables)}")
    for name, columns in sorted(tables.items()):
        found = [str(row[0]) for row in await _rows(cluster, f"DESCRIBE {name}")]
        if found != columns:
            raise CheckFailed(f"INV-DDL-1: {name} has {found}, acknowledged were {columns}")


async def _rows(cluster: SimulatedCluster, text: str) -> tuple[tuple[str | int | bool | None, ...], ...]:
    request = Execute(cluster_id=None, statement=StatementId(cluster.entropy.hex_128()), text=text)
    answer = await ask(cluster, request, patience_s=PATIENCE_S)
    if not isinstance(answer, Rows):
        raise CheckFailed(f"liveness: {text} got no answer within {PATIENCE_S:.0f} s after all was healed")
    return answer.rows
