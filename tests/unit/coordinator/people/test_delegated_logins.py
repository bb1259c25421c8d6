"""Delegated logins at a leader: who gets one, and when it ends."""

import asyncio

import pytest

from leasehold.core.membership.identity import hash_login, hash_secret
from leasehold.core.words import keys
from leasehold.core.words.messages import DelegateLogin, RenewLogins
from leasehold.core.words.operations import Change
from leasehold.errors import Forbidden, Refused, Unauthenticated
from leasehold.ids import ApplicationSecret, LoginToken, ObjectId
from leasehold.limits.people import DELEGATED_RENEW_NS, DELEGATED_RENEW_REST_NS, DELEGATED_TTL_NS, LOGIN_TTL_NS
from leasehold.limits.units import SECOND_NS
from tests.unit.coordinator.people.login_ground import over_a_store

TABLE = ObjectId(99)


SECRET = ApplicationSecret("5" * 32)


def asking(login: LoginToken | None, application: bytes = b"") -> DelegateLogin:
    return DelegateLogin(cluster_id=None, login=login, table=TABLE, application=application)


async def of_application(ground, login: LoginToken) -> bytes:
    """A login of the application with that secret, by its hash."""
    return hash_login((await ground.logins.delegate(asking(login, hash_secret(SECRET)))).token)


@over_a_store
async def test_a_delegated_login_is_asked_for_with_a_login_of_the_user(ground):
    login = await ground.log_in()
    delegated = await ground.logins.delegate(asking(login.token))
    record = ground.writer.catalog.logins[hash_login(delegated.token)]
    assert (record.user, record.limits.table, delegated.revision) == (1, TABLE, ground.writer.catalog.revision)
    with pytest.raises(Forbidden):
        await ground.logins.delegate(asking(delegated.token))
    for nobody in (None, LoginToken("f" * 32)):
        with pytest.raises(Unauthenticated):
            await ground.logins.delegate(asking(nobody))


@over_a_store
async def test_without_users_there_is_nothing_to_delegate(ground):
    await ground.write(*(Change(keys.principal(one), None) for one in ground.writer.catalog.users))
    with pytest.raises(Refused) as caught:
        await ground.logins.delegate(asking(None))
    assert caught.value.code == "NO_USERS"


@over_a_store
async def test_a_delegated_login_ends_a_day_after_it_was_made_whoever_leads(ground):
    login = await ground.log_in()
    delegated = await ground.logins.delegate(asking(login.token))
    await asyncio.sleep(LOGIN_TTL_NS / SECOND_NS - 60)
    next_one = ground.another()
    await next_one.expire()
    assert len(ground.writer.catalog.logins) == 2
    await asyncio.sleep(60)
    await next_one.expire()
    assert set(ground.writer.catalog.logins) == {hash_login(login.token)}, "a new leader counts its time anew"
    await ground.logins.expire()
    assert not set(ground.writer.catalog.logins)
    assert hash_login(delegated.token) not in ground.logins._since


@over_a_store
async def test_of_both_reasons_to_end_one_is_enough(ground):
    login = await ground.log_in()
    await ground.logins.delegate(asking(login.token))
    await asyncio.sleep(LOGIN_TTL_NS / SECOND_NS)
    await ground.logins.expire()
    assert not set(ground.writer.catalog.logins)


def renewing(secret: ApplicationSecret = SECRET, *, ends: bool = False) -> RenewLogins:
    return RenewLogins(cluster_id=None, application=secret, ends=ends)


@over_a_store
async def test_a_driver_keeps_the_logins_of_its_application_and_ends_them(ground):
    login = await ground.log_in()
    other = hash_login((await ground.logins.delegate(asking(login.token))).token)
    one = await of_application(ground, login.token)
    for _ in range(2 * DELEGATED_TTL_NS // DELEGATED_RENEW_NS):
        await asyncio.sleep(DELEGATED_RENEW_NS / SECOND_NS)
        answer = await ground.logins.renew(renewing())
        assert answer.revision == ground.writer.catalog.revision
        await ground.logins.expire()
    two = await of_application(ground, login.token)
    assert set(ground.writer.catalog.logins) == {hash_login(login.token), other, one, two}
    for _ in range(2):
        await ground.logins.renew(renewing(ends=True))
        assert set(ground.writer.catalog.logins) == {hash_login(login.token), other}


@over_a_store
async def test_the_logins_of_a_driver_that_was_killed_end_soon_whoever_leads(ground):
    login = await ground.log_in()
    one = await of_application(ground, login.token)
    await asyncio.sleep(DELEGATED_TTL_NS / SECOND_NS - 1)
    next_one = ground.another()
    await next_one.expire()
    assert one in ground.writer.catalog.logins
    await asyncio.sleep(1)
    await next_one.expire()
    assert set(ground.writer.catalog.logins) == {hash_login(login.token)}


@over_a_store
async def test_who_guesses_a_secret_of_an_application_changes_nothing(ground):
    """Neither does whoever has one of its logins, or has read the hash in a backup."""
    login = await ground.log_in()
    token = (await ground.logins.delegate(asking(login.token, hash_secret(SECRET)))).token
    before = ground.writer.catalog.revision
    for guess in ("", "6" * 32, token, hash_secret(SECRET).hex()):
        for ends in (False, True):
            answer = await ground.logins.renew(renewing(ApplicationSecret(guess), ends=ends))
            assert answer.revision == ground.writer.catalog.revision == before


@over_a_store
async def test_renewals_of_an_application_that_follow_each_other_closely_are_one_write(ground):
    login = (await ground.log_in()).token
    await of_application(ground, login)
    written: list[int] = []
    submit = ground.writer.submit

    async def counted(decide):
        written.append(1)
        return await submit(decide)

    ground.writer.submit = counted
    request = RenewLogins(cluster_id=None, application=SECRET)
    for rest_s in (1, DELEGATED_RENEW_REST_NS / SECOND_NS, 0):
        await asyncio.gather(*(ground.logins.renew(request) for _ in range(20)))
        await asyncio.sleep(rest_s)
    assert len(written) == 2
    await ground.logins.expire()
    await ground.logins.renew(RenewLogins(cluster_id=None, application=SECRET, ends=True))
    assert not ground.writer.catalog.applications, "they end at once"
    await ground.clock.sleep_until(ground.clock.now_ns() + DELEGATED_RENEW_REST_NS)
    await ground.logins.expire()
    assert not ground.logins._renewed
    assert not ground.logins._gates
