"""A reader beside a simulated node: it opens the files of plans there, as `client/local_opens.py` does.

Tasks open files at random instants, while one loop renews the sub-lease. A driver that is killed leaves its links.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Any, Final, NoReturn

from leasehold.core.data.asking import Asking
from leasehold.core.local.sub_lease import SubLease, sent_and_answer
from leasehold.core.membership.identity import hash_secret, node_login
from leasehold.core.words.messages import (
    LocalOpened,
    LocalRenewed,
    LocalSegment,
    OpenLocal,
    PlanScan,
    RenewLocal,
    ScanPlan,
)
from leasehold.errors import LeaseholdError
from leasehold.limits.local import LOCAL_CALL_MIN_NS, LOCAL_RENEW_CALL_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.cluster import SimulatedCluster
from leasehold.testing.coordinator_calls import Account, coordinator_client
from leasehold.testing.links import PROOF
from leasehold.testing.local_news import LocallyOpened, SubLeased
from leasehold.testing.machines import SimulatedNode
from leasehold.testing.oracle import Oracle
from leasehold.testing.steps import TaskRuntime
from leasehold.wire.ports import Connection

DRIVERS: Final = 2
KILLED_CHANCE: Final = 0.2
OPEN_PAUSE_MAX_NS: Final = 150 * MILLISECOND_NS
HELD_MAX_NS: Final = 8 * SECOND_NS
IDLE_MAX_NS: Final = 2 * SECOND_NS
OPEN_CALL_NS: Final = 5 * SECOND_NS


class SimulatedDriver:
    """One client on the machine of `node`, which asks as the user of `account`."""

    def __init__(
        self, cluster: SimulatedCluster, node: SimulatedNode, random: Random, oracle: Oracle, account: Account | None
    ) -> None:
        self._cluster = cluster
        self._node = node
        self._random = random
        self._oracle = oracle
        node.data.returned = lambda: oracle.returned
        self._clock = node.clock.beside()
        self._host = cluster.network.host(f"{node.name}-driver")
        self._client = coordinator_client(self._host, cluster.addresses, TaskRuntime(self._clock), account)
        self.opened = 0
        """Files."""

    async def run(self, tables: Sequence[str]) -> NoReturn:
        """Opens random `tables`, one after the other, until cancelled."""
        while True:
            await self._sleep(self._random.randint(0, IDLE_MAX_NS))
            for name in self._random.sample(tables, len(tables)):
                try:
                    if await self._read(name):
                        break
                except LeaseholdError:
                    continue

    async def _read(self, name: str) -> bool:
        """False if the node holds nothing of it."""
        request = PlanScan(cluster_id=None, name=name, columns=None)
        plan = await self._client.look_up(request, ScanPlan, Asking())
        node = self._node.published.node
        place = next((one for one in plan.facts.places if one.node == node), None)
        held = tuple(one for one in plan.segments if node in one.holders)
        if place is None or not held:
            return False
        assert plan.cutoff is not None
        asked = OpenLocal(
            cluster_id=plan.facts.cluster_id,
            request=self._cluster.entropy.hex_128(),
            proof=PROOF,
            table=plan.facts.table,
            fields=plan.fields,
            groups=(tuple(LocalSegment(bucket=one.bucket, segment=one.id, sha256=one.sha256) for one in held),),
            revision=max(plan.facts.revision, self._client.known.revision),
            cutoff=plan.cutoff,
            generation=plan.facts.generation,
            login=node_login(self._client.calls.token),
        )
        connection = self._host.connect(place.address)
        try:
            await self._hold(asked, connection)
        finally:
            await connection.close()
        return True

    async def _hold(self, asked: OpenLocal, connection: Connection) -> None:
        call = partial(connection.call, asked, timeout_ns=OPEN_CALL_NS)
        sent_ns, answer = await sent_and_answer(call, self._clock.now_ns)
        if not isinstance(answer, LocalOpened):
            return
        sub_lease = SubLease(sent_ns=sent_ns, remaining_ns=answer.remaining_ns)
        self._holds(asked, sub_lease)
        async with asyncio.TaskGroup() as group:
            tasks = group.create_task(self._open_files(asked))
            until_ns = self._clock.now_ns() + self._random.randint(0, HELD_MAX_NS)
            while (now_ns := self._clock.now_ns()) < min(until_ns, sub_lease.over_ns):
                if now_ns >= sub_lease.due_ns and not await self._renew(asked, sub_lease, connection):
                    break
                await self._clock.sleep_until(min(until_ns, sub_lease.due_ns, sub_lease.over_ns))
            tasks.cancel()
        if self._random.random() >= KILLED_CHANCE:
            self._node.data.links.pop(asked.request, None)

    async def _renew(self, asked: OpenLocal, sub_lease: SubLease, connection: Connection) -> bool:
        """False once the node says that it has ended."""
        asked_ns = self._clock.now_ns()
        sub_lease.asked(asked_ns)
        request = RenewLocal(cluster_id=asked.cluster_id, requests=(asked.request,), login=asked.login)
        left_ns = max(LOCAL_CALL_MIN_NS, min(LOCAL_RENEW_CALL_NS, sub_lease.over_ns - asked_ns))
        try:
            call = partial(connection.call, request, timeout_ns=left_ns)
            sent_ns, answer = await sent_and_answer(call, self._clock.now_ns)
        except LeaseholdError:
            return True
        if not isinstance(answer, LocalRenewed) or answer.ended:
            return False
        sub_lease.renewed(sent_ns=sent_ns, remaining_ns=answer.remaining_ns)
        self._holds(asked, sub_lease)
        return True

    def _holds(self, asked: OpenLocal, sub_lease: SubLease) -> None:
        lent = self._node.data.lent[asked.request]
        self._oracle.saw(
            SubLeased(
                node=self._node.name,
                until_ns=sub_lease.deadline_ns,
                deadline_ns=lent.deadline_ns,
                revision=lent.revision,
                returned=lent.returned,
            )
        )

    async def _open_files(self, asked: OpenLocal) -> NoReturn:
        awake_ns = self._clock.now_ns()
        while True:
            # After a suspend of the machine, the loop above wakes up first.
            now_ns = self._clock.now_ns()
            is_late = now_ns > awake_ns + MILLISECOND_NS
            if asked.request in self._node.data.links and not is_late:
                self.opened += 1
                lent = self._node.data.lent[asked.request]
                self._oracle.saw(
                    LocallyOpened(
                        node=self._node.name,
                        at_ns=now_ns,
                        deadline_ns=lent.deadline_ns,
                        granted=lent.revision,
                        returned=self._oracle.returned,
                        table=asked.table,
                        fields=tuple(one.id for one in asked.fields),
                        deletes=asked.cutoff.deletes,
                        login=None if asked.login is None else hash_secret(asked.login),
                    )
                )
            awake_ns = self._clock.now_ns() + self._random.randint(MILLISECOND_NS, OPEN_PAUSE_MAX_NS)
            await self._clock.sleep_until(awake_ns)

    async def _sleep(self, duration_ns: int) -> None:
        await self._clock.sleep_until(self._clock.now_ns() + duration_ns)


def drivers(
    cluster: SimulatedCluster, random: Random, oracle: Oracle, account: Account | None, tables: Sequence[str]
) -> list[Coroutine[Any, Any, None]]:
    """One beside each of the first DRIVERS nodes."""
    found: list[Coroutine[Any, Any, None]] = []
    for node in cluster.nodes[:DRIVERS]:
        own = Random(random.getrandbits(64))  # noqa: S311 - a seed has to give the same run again
        found.append(SimulatedDriver(cluster, node, own, oracle, account).run(tables))
    return found
