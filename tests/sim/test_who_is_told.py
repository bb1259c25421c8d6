"""Whom a coordinator tells its transport to have found behind a request: users, once their login was checked."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress

import pytest

from leasehold.core.access.callers import Caller, CallerRole
from leasehold.core.words.messages import AskTable, Login, Message, PlanQuery, WhoAreYou
from leasehold.errors import LeaseholdError
from leasehold.ids import LoginToken
from leasehold.testing.cluster import SimulatedCluster, SimulatedCoordinator
from leasehold.wire.ports import CALLER, WHO_ASKS
from tests.sim.coordinator_words import ask, execute, followers, run, simulate, the_leader
from tests.sim.test_followers import log_in

TABLE = AskTable(cluster_id=None, name="d.t")


@contextmanager
def told(caller: Caller | None = None) -> Generator[list[str]]:
    """What is told meanwhile of this caller."""
    names: list[str] = []
    marks = WHO_ASKS.set(names.append), CALLER.set(caller)
    try:
        yield names
    finally:
        WHO_ASKS.reset(marks[0])
        CALLER.reset(marks[1])


async def heard(
    cluster: SimulatedCluster, coordinator: SimulatedCoordinator, request: Message, caller: Caller | None = None
) -> set[str]:
    with told(caller) as names, suppress(LeaseholdError):
        await ask(cluster, coordinator, request)
    return set(names)


def by(login: LoginToken | None, cluster: SimulatedCluster) -> list[Message]:
    return [
        AskTable(cluster_id=None, name="d.t", login=login),
        PlanQuery(cluster_id=None, names=("d.t",), login=login),
        execute(cluster, "SHOW TABLES", login),
    ]


def test_the_user_of_a_login_is_told_by_each_coordinator() -> None:
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await run(cluster, "CREATE TABLE d.t (a INT)")
        await run(cluster, "CREATE USER u PASSWORD 'p'")
        login = await log_in(cluster, "u")
        leader, follower = the_leader(cluster), followers(cluster)[0]
        for one in (leader, follower):
            for request in by(login, cluster):
                assert await heard(cluster, one, request) == {"user u"}, request
            for request in [*by(None, cluster), *by(LoginToken("0" * 32), cluster), WhoAreYou()]:
                assert await heard(cluster, one, request) == set(), request
        assert await heard(cluster, leader, execute(cluster, "CREATE DATABASE e", login)) == {"user u"}
        right, wrong = (Login(cluster_id=None, user="U", password=one) for one in ("p", "x"))
        assert await heard(cluster, leader, right) == {"user u"}
        assert await heard(cluster, leader, wrong) == set()

    simulate(scenario)


@pytest.mark.parametrize(("role", "names"), [(CallerRole.CLIENT, {"client ann"}), (CallerRole.STRANGER, set[str]())])
def test_without_users_a_certificate_tells_who_asks(role: CallerRole, names: set[str]) -> None:
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await run(cluster, "CREATE TABLE d.t (a INT)")
        caller = Caller(role, "ann" if role is CallerRole.CLIENT else "")
        for one in (the_leader(cluster), followers(cluster)[0]):
            assert await heard(cluster, one, TABLE, caller) == names
            assert await heard(cluster, one, WhoAreYou(), caller) == set()

    simulate(scenario)
