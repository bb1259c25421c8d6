"""Logging in at a leader: passwords for tokens, how wrong ones are slowed down, how logins end."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from leasehold.core.access.callers import Caller, CallerRole
from leasehold.core.access.password_queue import PLACES, Lane
from leasehold.core.catalog.plan import put
from leasehold.core.membership.identity import hash_login, hash_secret
from leasehold.core.words import keys
from leasehold.core.words.messages import LoggedIn, LogInByCertificate, LogInByToken, LogOut
from leasehold.core.words.operations import Change
from leasehold.core.words.records import PrincipalKind, TokenRecord, UseState
from leasehold.errors import LeaseholdError, Refused, Unauthenticated, WrongPassword
from leasehold.ids import LoginToken, PrincipalId, UserToken
from leasehold.limits.people import (
    LOGIN_TTL_NS,
    LOGINS_AT_ONCE,
    LOGINS_PER_USER_MAX,
    PASSWORD_CHARACTERS_MAX,
    PASSWORDS_AT_ONCE,
    WRONG_PASSWORD_REST_MAX_NS,
    WRONG_PASSWORD_REST_MIN_NS,
)
from leasehold.limits.units import SECOND_NS
from tests.unit.coordinator.people.login_ground import PASSWORD_S, Ground, over_a_store

LATER_S = 2**40
"""The end of a certificate that counts."""

STRANGERS = 80


@over_a_store
async def test_the_right_password_gives_a_token_that_is_known_from_its_revision_on(ground):
    answer = await ground.log_in("U", "u")
    record = ground.writer.catalog.logins[hash_login(answer.token)]
    assert (record.user, record.order) == (1, 1)
    assert answer.revision == ground.writer.catalog.revision
    again = await ground.log_in()
    assert again.token != answer.token
    assert ground.writer.catalog.logins[hash_login(again.token)].order == 2
    assert ground.writer.catalog.counters.next_login == 3


@over_a_store
async def test_no_token_and_no_password_is_stored(ground):
    answer = await ground.log_in()
    stored = repr(ground.writer.catalog)
    assert answer.token not in stored
    assert answer.token not in repr(ground.logins.__dict__)


@over_a_store
async def test_where_nobody_has_to_log_in_nobody_can(ground):
    await ground.write(Change(keys.principal(1), None), Change(keys.principal(2), None))
    with pytest.raises(Refused) as caught:
        await ground.log_in()
    assert caught.value.code == "NO_USERS"


@over_a_store
async def test_a_wrong_password_is_told_later_each_time_up_to_a_bound(ground):
    least_s, most_s = WRONG_PASSWORD_REST_MIN_NS / SECOND_NS, WRONG_PASSWORD_REST_MAX_NS / SECOND_NS
    took = [await ground.took_s(ground.log_in("u", "x")) for _ in range(7)]
    assert took == pytest.approx([min(least_s * 2**one, most_s) for one in range(7)], abs=0.001)
    assert took[-1] == pytest.approx(most_s, abs=0.001)
    assert ground.logins.failed("U") == 7
    assert ground.logins.failed("v") == 0
    await ground.log_in()  # the right one is not held up
    assert await ground.took_s(ground.log_in("u", "x")) == pytest.approx(least_s, abs=0.001)
    assert ground.logins.failed("u") == 8


@pytest.mark.parametrize("user", ["nobody", "", "a b", "n" * 100_000])
def test_who_does_not_exist_is_told_the_same_at_the_same_cost(user):
    @over_a_store
    async def scenario(ground):
        least_s = WRONG_PASSWORD_REST_MIN_NS / SECOND_NS
        assert await ground.took_s(ground.log_in(user, "x")) == pytest.approx(least_s, abs=0.001)
        assert await ground.took_s(ground.log_in(user, "x")) == pytest.approx(2 * least_s, abs=0.001)
        assert ground.passwords.asked == [None, None]

    scenario()


@over_a_store
async def test_a_role_a_user_who_is_going_and_a_giant_password_match_nothing(ground):
    await ground.user(3, "r", kind=PrincipalKind.ROLE, password_hash=None)
    await ground.user(4, "w", state=UseState.PRE_DELETE)
    giant = "u" * (PASSWORD_CHARACTERS_MAX + 1)
    await ground.user(5, "g", password_hash=await ground.passwords.hashed(giant[:-1]))
    for user, password in (("r", "r"), ("w", "w"), ("g", giant)):
        await ground.took_s(ground.log_in(user, password))


@over_a_store
async def test_strangers_with_made_up_names_do_not_shut_a_user_out(ground):
    """One queue served all in order of arrival: with 66 places taken by strangers a user was refused as BUSY."""

    async def stranger(number: int) -> None:
        for attempt in range(1_000):
            with contextlib.suppress(LeaseholdError):
                await ground.log_in(f"n{number}_{attempt}", "x")
            await asyncio.sleep(0.01)

    strangers = [asyncio.ensure_future(stranger(number)) for number in range(STRANGERS)]
    await asyncio.sleep(1)
    for user in ("u", "v"):
        began_ns = ground.loop.now_ns()
        await ground.log_in(user)
        assert ground.loop.now_ns() - began_ns <= 3 * PASSWORD_S * SECOND_NS
    assert await ground.logins.hashed("new") == await ground.passwords.hashed("new")
    assert ground.passwords.most == PASSWORDS_AT_ONCE
    for one in strangers:
        one.cancel()
    await asyncio.gather(*strangers, return_exceptions=True)
    assert ground.logins._waiting == {}


@over_a_store
async def test_a_user_whose_name_fails_all_the_time_is_not_shut_out_by_strangers(ground):
    await ground.took_s(ground.log_in("u", "x"))
    strangers = [asyncio.ensure_future(ground.log_in(f"n{number}", "x")) for number in range(STRANGERS)]
    wrong = [asyncio.ensure_future(ground.log_in("u", "x")) for _ in range(4)]
    await asyncio.sleep(0)
    began_ns = ground.loop.now_ns()
    await ground.log_in()
    assert ground.loop.now_ns() - began_ns <= 12 * PASSWORD_S * SECOND_NS
    await asyncio.gather(*strangers, *wrong, return_exceptions=True)


@over_a_store
async def test_passwords_of_one_name_are_checked_one_at_a_time(ground):
    await ground.took_s(ground.log_in("u", "x"))
    wrong = [asyncio.ensure_future(ground.log_in("u", "x")) for _ in range(PLACES[Lane.FAILED])]
    right = asyncio.ensure_future(ground.log_in())  # one runs, all places are taken with this one
    await asyncio.sleep(0)
    checked = len(ground.passwords.asked)
    with pytest.raises(Refused) as caught:
        await ground.log_in()
    assert caught.value.code == "BUSY"
    assert len(ground.passwords.asked) == checked, "one too many is not even checked"
    await right  # in its turn, ahead of all the answers
    assert ground.passwords.most == 1
    assert all(isinstance(one, WrongPassword) for one in await asyncio.gather(*wrong, return_exceptions=True))
    await ground.log_in()


@over_a_store
async def test_nobody_is_held_up_by_wrong_passwords_of_another_name(ground):
    wrong = [asyncio.ensure_future(ground.log_in("u", "x")) for _ in range(PLACES[Lane.USER])]
    await asyncio.sleep(0)
    began_ns = ground.loop.now_ns()
    await ground.log_in("v")
    assert ground.loop.now_ns() - began_ns <= 2 * PASSWORD_S * SECOND_NS
    await asyncio.gather(*wrong, return_exceptions=True)


@over_a_store
async def test_a_login_that_loses_its_place_to_another_name_is_told_that_it_is_busy(ground):
    many = [asyncio.ensure_future(ground.log_in()) for _ in range(PLACES[Lane.USER] + 1)]
    await asyncio.sleep(0)
    others = [
        asyncio.ensure_future(ground.log_in("v")) for _ in range(3)
    ]  # the second finds the place that the first one left
    await asyncio.gather(*others)
    ended = await asyncio.gather(*many, return_exceptions=True)
    assert [type(one) for one in ended] == [LoggedIn] * (len(many) - 2) + [Refused] * 2
    assert {one.code for one in ended[-2:]} == {"BUSY"}


@over_a_store
async def test_the_right_password_is_found_while_others_try_wrong_ones_all_the_time(ground):
    """While answers were late no password was looked at once: 8 slow attackers could lock a user out."""

    async def attack() -> None:
        while True:
            with contextlib.suppress(LeaseholdError):
                await ground.log_in("u", "x")
            await asyncio.sleep(0.3)

    attackers = [asyncio.ensure_future(attack()) for _ in range(8)]
    await asyncio.sleep(20)
    for _ in range(100):
        began_ns = ground.loop.now_ns()
        await ground.log_in()
        assert ground.loop.now_ns() - began_ns < SECOND_NS
        await asyncio.sleep(1)
    for one in attackers:
        one.cancel()


@over_a_store
async def test_a_login_whose_attempt_is_given_up_leaves_its_place(ground):
    given_up = [asyncio.ensure_future(ground.log_in("u", "x")) for _ in range(PLACES[Lane.USER] + 1)]
    await asyncio.sleep(PASSWORD_S / 2)
    for one in given_up:
        one.cancel()
    await asyncio.gather(*given_up, return_exceptions=True)
    await ground.log_in()
    assert ground.logins._waiting == {}


@over_a_store
async def test_who_logs_out_ends_that_login_and_no_other(ground):
    mine, other = await ground.log_in(), await ground.log_in()
    for _ in range(2):
        answer = await ground.logins.log_out(LogOut(cluster_id=None, token=mine.token))
        assert set(ground.writer.catalog.logins) == {hash_login(other.token)}
        assert answer.revision == ground.writer.catalog.revision == other.revision + 1
    await ground.logins.log_out(LogOut(cluster_id=None, token=LoginToken("")))
    assert ground.writer.catalog.revision == other.revision + 1


@over_a_store
async def test_a_password_that_changes_while_it_is_checked_counts_no_more(ground):
    attempt = asyncio.ensure_future(ground.log_in())
    await asyncio.sleep(PASSWORD_S / 2)
    await ground.user(1, "u", password_hash="another")
    with pytest.raises(WrongPassword):
        await attempt
    assert len(ground.writer.catalog.logins) == 0


@over_a_store
async def test_a_new_password_has_a_length(ground):
    for password in ("", "p" * (PASSWORD_CHARACTERS_MAX + 1)):
        with pytest.raises(Refused) as caught:
            await ground.logins.hashed(password)
        assert caught.value.code == "BAD_PASSWORD"


@over_a_store
async def test_the_oldest_login_of_a_user_makes_room_for_a_further_one(ground):
    hers = await ground.log_in("v")
    tokens = [(await ground.log_in()).token for _ in range(LOGINS_PER_USER_MAX + 2)]
    known = ground.writer.catalog.logins
    assert [hash_login(one) in known for one in tokens] == [False, False] + [True] * LOGINS_PER_USER_MAX
    assert hash_login(hers.token) in known


@over_a_store
async def test_a_login_ends_by_its_age_which_a_new_leader_counts_anew(ground):
    old = await ground.log_in()
    await asyncio.sleep(LOGIN_TTL_NS / SECOND_NS - 60)
    young = await ground.log_in()
    next_one = ground.another()
    await next_one.expire()
    await asyncio.sleep(60)
    await next_one.expire()
    assert len(ground.writer.catalog.logins) == 2
    await ground.logins.expire()
    assert set(ground.writer.catalog.logins) == {hash_login(young.token)}
    await ground.logins.expire()
    assert hash_login(old.token) not in ground.logins._since


SHOWN = UserToken("lht_" + "a" * 64)


async def log_in_by_token(ground: Ground) -> LoggedIn:
    return await ground.logins.log_in(LogInByToken(cluster_id=None, user="u", token=SHOWN))


@over_a_store
async def test_a_token_logs_in_until_it_expires_and_then_what_it_has_logged_in_ends(ground):
    by_password = await ground.log_in()
    expires_us = ground.clock.wall_us() + 60_000_000
    record = TokenRecord(
        hash=hash_secret(SHOWN), name="k", user=PrincipalId(1), made_us=ground.clock.wall_us(), expires_us=expires_us
    )
    await ground.write(put(keys.token(record.hash), record))
    by_token = await log_in_by_token(ground)
    await ground.logins.expire()
    assert set(ground.writer.catalog.logins) == {hash_login(one.token) for one in (by_password, by_token)}
    await asyncio.sleep(60)
    with pytest.raises(Unauthenticated) as caught:
        await log_in_by_token(ground)
    assert caught.value.code == "WRONG_USER_TOKEN"
    await ground.logins.expire()
    assert set(ground.writer.catalog.logins) == {hash_login(by_password.token)}
    assert len(ground.writer.catalog.tokens) == 0
    assert ground.passwords.asked == ground.passwords.asked[:1], "a token needs no slow hash"


@over_a_store
async def test_who_is_refused_takes_no_place_among_the_writes(ground):
    ground.logins._writer = SimpleNamespace(catalog=ground.writer.catalog)
    with pytest.raises(Unauthenticated) as caught:
        await ground.logins.log_in(LogInByToken(cluster_id=None, user="u", token=UserToken("lht_" + "b" * 64)))
    assert caught.value.code == "WRONG_USER_TOKEN"
    with pytest.raises(Unauthenticated):
        await ground.logins.log_in(
            LogInByCertificate(cluster_id=None), "", Caller(CallerRole.CLIENT, "u", ends_s=LATER_S)
        )
    answer = await ground.logins.log_out(LogOut(cluster_id=None, token=LoginToken("c" * 32)))
    assert answer.revision == ground.writer.catalog.revision


@over_a_store
async def test_logins_of_one_user_are_few_among_the_writes_and_others_do_not_wait_for_them(ground):
    request = LogInByCertificate(cluster_id=None)
    for number, name in enumerate("uv", start=1):
        await ground.user(number, name, by_certificate=True)
    asked: list[asyncio.Event] = []

    async def submit(_: object) -> int:
        asked.append(asyncio.Event())
        await asked[-1].wait()
        return 7

    ground.logins._writer = SimpleNamespace(catalog=ground.writer.catalog, submit=submit)
    async with asyncio.TaskGroup() as group:
        for name, many in (("u", 2 * LOGINS_AT_ONCE), ("v", 1)):
            for _ in range(many):
                group.create_task(ground.logins.log_in(request, "", Caller(CallerRole.CLIENT, name, ends_s=LATER_S)))
        await asyncio.sleep(1)
        assert len(asked) == LOGINS_AT_ONCE + 1
        asked[0].set()
        await asyncio.sleep(1)
        assert len(asked) == LOGINS_AT_ONCE + 2
        for number in range(2 * LOGINS_AT_ONCE + 1):
            await asyncio.sleep(1)
            asked[number].set()
    assert not ground.logins._few, "nothing is kept"


@over_a_store
async def test_a_certificate_logs_in_while_that_is_on(ground):
    request, caller = LogInByCertificate(cluster_id=None), Caller(CallerRole.CLIENT, "u", ends_s=LATER_S)
    with pytest.raises(Unauthenticated):
        await ground.logins.log_in(request, "", caller)
    await ground.user(1, "u", by_certificate=True)
    answer = await ground.logins.log_in(request, "", caller)
    assert ground.writer.catalog.logins[hash_login(answer.token)].by_certificate
