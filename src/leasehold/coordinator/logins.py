"""Logging in: a password for a token, which every node knows by its hash as soon as it has applied the login.

A wrong password is answered late, and later after each further one of the same name; the right one is not, whoever
else tries that name. While WRONG_PASSWORDS_LATE_MAX answers for a name are on their way, its passwords are checked one
at a time, in the order in which they came: that bounds how many can be tried, and the right one is still found among
them. An unknown name is treated alike in all of this. Counts are of this leader alone.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncGenerator
from heapq import nsmallest

import msgspec

from leasehold.coordinator.writer import Writer
from leasehold.core import keys
from leasehold.core.catalog import Catalog
from leasehold.core.identity import hash_secret
from leasehold.core.messages import LoggedIn, LoggedOut, Login, LogOut
from leasehold.core.operations import Change
from leasehold.core.plan import counters, put
from leasehold.core.records import LoginRecord, PrincipalKind, PrincipalRecord
from leasehold.core.statements import fold
from leasehold.errors import Refused, WrongPassword
from leasehold.ids import IDENTIFIER, LoginToken, PrincipalId
from leasehold.limits import (
    IDENTIFIER_CHARACTERS_MAX,
    LOGIN_TTL_NS,
    LOGINS_MAX,
    LOGINS_PER_USER_MAX,
    PASSWORD_CHARACTERS_MAX,
    PASSWORDS_AT_ONCE,
    PASSWORDS_WAITING_MAX,
    PURGE_BATCH,
    WRONG_PASSWORD_REST_MAX_NS,
    WRONG_PASSWORD_REST_MIN_NS,
    WRONG_PASSWORDS_KEPT,
    WRONG_PASSWORDS_LATE_MAX,
    WRONG_PASSWORDS_QUEUED_MAX,
)
from leasehold.wire.ports import Clock, Entropy, Passwords


class _Tries(msgspec.Struct):
    """What is known of the wrong passwords for one name."""

    failed: int = 0
    """In all."""
    in_row: int = 0
    """Since the last right one."""
    late: int = 0
    """Answers on their way."""
    queued: int = 0
    """Passwords that are checked one at a time, or wait for that."""
    turn: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Of the one that is being checked."""


class Logins:
    """Passwords and logins of one leader."""

    def __init__(self, writer: Writer, clock: Clock, passwords: Passwords, entropy: Entropy) -> None:
        self._writer = writer
        self._clock = clock
        self._passwords = passwords
        self._entropy = entropy
        self._free = asyncio.Semaphore(PASSWORDS_AT_ONCE)
        self._busy = 0
        self._tries: OrderedDict[str, _Tries] = OrderedDict()
        self._since: dict[bytes, int] = {}
        """When this leader first saw each login: no clock reading outlives its process."""

    def failed(self, user: str) -> int:
        """How many wrong passwords were tried for that name."""
        tries = self._tries.get(fold(user))
        return 0 if tries is None else tries.failed

    async def hashed(self, password: str) -> str:
        """What to store of a new password. Raises `Refused` with code BUSY, or BAD_PASSWORD if it is too long."""
        if not 0 < len(password) <= PASSWORD_CHARACTERS_MAX:
            text = f"a password has 1 to {PASSWORD_CHARACTERS_MAX} characters"
            raise Refused(text, code="BAD_PASSWORD", hint="choose another one")
        async with self._turn():
            return await self._passwords.hashed(password)

    async def log_in(self, request: Login) -> LoggedIn:
        """A token for the right password, durable and known to nodes from the revision in the answer on.

        Raises `WrongPassword`, `Refused` (NO_USERS, BUSY).
        """
        if not self._writer.catalog.users:
            text = "this cluster has no users: everybody may do everything"
            raise Refused(text, code="NO_USERS", hint="connect without a user, or CREATE USER first")
        tries = self._tries_of(request.user)
        async with _in_turn(tries):
            user = await self._checked(request)
        if user is None:
            raise await self._wrong(tries)
        tries.in_row = 0
        token = LoginToken(self._entropy.hex_128())
        revision = await self._writer.submit(lambda catalog: record_login(token, user, catalog))
        self._since[hash_secret(token)] = self._clock.now_ns()
        return LoggedIn(token=token, revision=revision)

    async def log_out(self, request: LogOut) -> LoggedOut:
        """Ends a login, whose token is all that it takes; one that has ended already is as good."""
        ended = [hash_secret(request.token)]
        return LoggedOut(revision=await self._writer.submit(lambda catalog: _ended(ended, catalog)))

    async def expire(self) -> None:
        """Ends the logins that this leader has known for too long."""
        now_ns = self._clock.now_ns()
        known = self._writer.catalog.logins
        self._since = {one: self._since.get(one, now_ns) for one in known}
        old = [one for one, since_ns in self._since.items() if now_ns - since_ns >= LOGIN_TTL_NS]
        if old:
            await self._writer.submit(lambda catalog: _ended(old, catalog))

    # ------------------------------------------------------------ a password

    async def _checked(self, request: Login) -> PrincipalRecord | None:
        """The user, if that is his password; whether he exists must not show in how long it takes."""
        user = find_user(request.user, self._writer.catalog)
        fits = len(request.password) <= PASSWORD_CHARACTERS_MAX
        async with self._turn():
            matches = await self._passwords.matches(
                user.password_hash if user is not None and fits else None, request.password[:PASSWORD_CHARACTERS_MAX]
            )
        return user if matches else None

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        if self._busy >= PASSWORDS_AT_ONCE + PASSWORDS_WAITING_MAX:
            raise Refused("too many passwords are being checked", code="BUSY", hint="try again in a moment")
        self._busy += 1
        try:
            async with self._free:
                yield
        finally:
            self._busy -= 1

    def _tries_of(self, user: str) -> _Tries:
        name = fold(user[:IDENTIFIER_CHARACTERS_MAX])
        tries = self._tries.setdefault(name, _Tries())
        self._tries.move_to_end(name)
        if len(self._tries) > WRONG_PASSWORDS_KEPT:
            self._tries.popitem(last=False)
        return tries

    async def _wrong(self, tries: _Tries) -> WrongPassword:
        """Counts it, waits, and only then gives the answer."""
        rest_ns = min(WRONG_PASSWORD_REST_MIN_NS << min(tries.in_row, 32), WRONG_PASSWORD_REST_MAX_NS)
        tries.failed += 1
        tries.in_row += 1
        tries.late += 1
        try:
            await self._clock.sleep_until(self._clock.now_ns() + rest_ns)
        finally:
            tries.late -= 1
        return wrong_password()


@contextlib.asynccontextmanager
async def _in_turn(tries: _Tries) -> AsyncGenerator[None]:
    """At once, or while many wrong passwords of that name wait for their answers one after the other. Raises `Refused`
    with code BUSY."""
    if tries.late < WRONG_PASSWORDS_LATE_MAX:
        yield
        return
    if tries.queued >= WRONG_PASSWORDS_QUEUED_MAX:
        text = "too many passwords of this user are being tried, most of them wrong"
        raise Refused(text, code="BUSY", hint="try again in some seconds")
    tries.queued += 1
    try:
        async with tries.turn:
            yield
    finally:
        tries.queued -= 1


def wrong_password() -> WrongPassword:
    """The same for a user who does not exist."""
    return WrongPassword("no such user, or another password", hint="look at LEASEHOLD_USER and LEASEHOLD_PASSWORD")


def find_user(name: str, catalog: Catalog) -> PrincipalRecord | None:
    """The user in use under a name from outside."""
    if len(name) > IDENTIFIER_CHARACTERS_MAX or IDENTIFIER.fullmatch(name) is None:
        return None
    found = catalog.find_principal(name)
    return found if found is not None and found.kind is PrincipalKind.USER else None


def record_login(token: LoginToken, user: PrincipalRecord, catalog: Catalog) -> tuple[Change, ...]:
    """Writes the login of a user whose password was checked, unless that has changed since; ends the oldest ones that
    are too many. Raises `WrongPassword`."""
    standing = catalog.principals.get(user.id)
    if standing is None or (standing.state, standing.password_hash) != (user.state, user.password_hash):
        raise wrong_password()
    numbers = counters(catalog)
    record = LoginRecord(token_hash=hash_secret(token), user=user.id, order=numbers.next_login)
    return (
        put(keys.COUNTERS, msgspec.structs.replace(numbers, next_login=numbers.next_login + 1)),
        put(keys.login(record.token_hash), record),
        *(Change(keys.login(one), None) for one in _too_many(user.id, catalog)),
    )


def _too_many(user: PrincipalId, catalog: Catalog) -> set[bytes]:
    """The oldest logins of the user, so that one more leaves as many as there may be; of all the oldest at once, so
    that finding them costs little each."""
    his = catalog.logins_of.get(user, ())
    going = {token_hash for _, token_hash in his[: max(0, len(his) + 1 - LOGINS_PER_USER_MAX)]}
    if len(catalog.logins) >= LOGINS_MAX:
        oldest = nsmallest(PURGE_BATCH, catalog.logins.values(), key=lambda one: one.order)
        going.update(one.token_hash for one in oldest)
    return going


def _ended(logins: list[bytes], catalog: Catalog) -> tuple[Change, ...]:
    return tuple(Change(keys.login(one), None) for one in logins if one in catalog.logins)
