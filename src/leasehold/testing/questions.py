"""A client that asks one coordinator after another, whether it leads or not, which tables there are (INV-READ-1)."""

import asyncio
import contextlib
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final, NoReturn

from leasehold.core.data.statement_calls import ask_statement
from leasehold.core.words.messages import Execute, Rows
from leasehold.core.words.statements import fold
from leasehold.errors import LeaseholdError
from leasehold.ids import LoginToken, StatementId
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.testing.catalog_operations import CatalogAnswer
from leasehold.testing.cluster import SimulatedCluster
from leasehold.testing.oracle import Oracle

PAUSE_MAX_S: Final = 1.0


class Questioner:
    """Tells the oracle of each answer, and keeps all."""

    def __init__(self, cluster: SimulatedCluster, random: Random, oracle: Oracle, login: LoginToken | None) -> None:
        self._cluster = cluster
        self._client = cluster.client(token=login)
        self._random = random
        self._oracle = oracle
        self._login = login
        self.answers: list[CatalogAnswer] = []

    async def run(self) -> NoReturn:
        """Asks for ever, each coordinator at once after another: so one may show what another does not show yet. An
        error is an answer too."""
        addresses = self._cluster.addresses
        while True:
            await asyncio.sleep(self._random.random() * PAUSE_MAX_S * len(addresses))
            for address in self._random.sample(addresses, len(addresses)):
                with contextlib.suppress(LeaseholdError):
                    await self.ask(address)

    async def ask(self, address: str) -> Rows:
        """Asks the coordinator at an address once."""
        statement = StatementId(self._cluster.entropy.hex_128())
        request = Execute(cluster_id=None, statement=statement, text="SHOW TABLES", login=self._login)
        asked_ns, floor = self._cluster.loop.now_ns(), self._oracle.told
        rows = await ask_statement(self._client, address, request, self._client.deadline(CALL_TIMEOUT_NS))
        assert isinstance(rows, Rows), "it is a question"
        tables = frozenset((str(row[0]), str(row[1])) for row in rows.rows)
        self._oracle.catalog_read(address, rows.revision, floor, tables)
        self.answers.append(
            CatalogAnswer(
                what=f"SHOW TABLES at {address}",
                asked_ns=asked_ns,
                answered_ns=self._cluster.loop.now_ns(),
                revision=rows.revision,
                shown=frozenset((fold(database), fold(table)) for database, table in tables),
            )
        )
        return rows
