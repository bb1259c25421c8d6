"""Logging in: a password, a user's token or a certificate is exchanged for a login's token, whose hash every node knows
once it has applied the login.

`core.access.password_queue` decides which password is checked next. A right password is answered at once. A wrong one
is answered late, and later after each further wrong one of the same name; so is a name without a user. Each leader
counts anew.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Callable
from typing import Final, NamedTuple, TypeAlias, assert_never
from weakref import WeakValueDictionary

from leasehold.coordinator.who_asks import tell_who_asks
from leasehold.coordinator.writer import Writer
from leasehold.core.access.callers import Caller
from leasehold.core.access.logins import (
    delegated_logins,
    delegated_logins_expired,
    delegated_logins_renewed,
    find_user,
    logins_ended,
    record_delegated_login,
    record_login,
    record_login_by_certificate,
    record_login_by_token,
    tokens_ended,
    wrong_password,
)
from leasehold.core.access.password_queue import Lane, NameHash, PasswordQueue, WrongPasswords, too_many_passwords
from leasehold.core.access.request_rights import check_request
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.membership.identity import hash_login, hash_secret
from leasehold.core.words.messages import (
    AnyLogin,
    DelegateLogin,
    LoggedIn,
    LoggedOut,
    Login,
    LogInByCertificate,
    LogInByToken,
    LoginsRenewed,
    LogOut,
    Message,
    RenewLogins,
)
from leasehold.core.words.operations import Change
from leasehold.core.words.records import PrincipalRecord
from leasehold.core.words.statements import fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import LoginToken, Revision
from leasehold.limits.people import DELEGATED_RENEW_REST_NS, LOGIN_TTL_NS, LOGINS_AT_ONCE, PASSWORD_CHARACTERS_MAX
from leasehold.limits.statements import IDENTIFIER_CHARACTERS_MAX
from leasehold.wire.ports import Clock, Entropy, Passwords

LoginRequest: TypeAlias = AnyLogin | DelegateLogin | RenewLogins | LogOut

_NEW_PASSWORD: Final = NameHash(b"")
"""The name in the queue for new passwords, which come from users who have logged in."""


class _Renewed(NamedTuple):
    at_ns: int
    revision: Revision


class Logins:
    """Passwords and logins at one leader. `wall_us` reads the believed wall clock, by which tokens expire."""

    def __init__(
        self, writer: Writer, clock: Clock, passwords: Passwords, entropy: Entropy, wall_us: Callable[[], int]
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._passwords = passwords
        self._entropy = entropy
        self._wall_us = wall_us
        self._queue = PasswordQueue()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        """By ticket; done when the check may begin."""
        self._wrong = WrongPasswords()
        self._few: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """By user, while a login of that user is being written."""
        self._gates: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        """By application, while its logins are renewed."""
        self._renewed: dict[bytes, _Renewed] = {}
        """The newest renewals, by application."""
        self._since: dict[bytes, int] = {}
        """When this leader first saw each login."""

    def failed(self, user: str) -> int:
        """How many wrong passwords were tried for a user."""
        return self._wrong.count(_hash_name(user))

    async def hashed(self, password: str) -> str:
        """The hash of a new password. Raises `Refused` (BUSY, BAD_PASSWORD)."""
        if not 0 < len(password) <= PASSWORD_CHARACTERS_MAX:
            text = f"a password has 1 to {PASSWORD_CHARACTERS_MAX} characters"
            raise Refused(text, code=ErrorCode.BAD_PASSWORD, hint="choose another one")
        async with self._turn(Lane.KNOWN, "", _NEW_PASSWORD):
            return await self._passwords.hashed(password)

    async def log_in(self, request: AnyLogin, peer: str = "", caller: Caller | None = None) -> LoggedIn:
        """Answers a token; nodes know it from the revision in the answer on. `peer` is the client's address without its
        port, `caller` its certificate. Raises `Unauthenticated`, `Refused` (NO_USERS, BUSY)."""
        _check_users(self._writer.catalog)
        match request:
            case Login():
                user = await self._with_password(request, peer)
                return await self._logged_in(user.name, lambda token, catalog: record_login(token, user, catalog))
            case LogInByToken(user=name, token=shown):
                return await self._logged_in(
                    name, lambda token, catalog: record_login_by_token(token, name, shown, catalog, self._wall_us())
                )
            case LogInByCertificate():
                return await self._logged_in(
                    "" if caller is None else caller.name,
                    lambda token, catalog: record_login_by_certificate(token, caller, catalog, self._wall_us()),
                )
            case _:
                assert_never(request)

    async def answer(self, request: LoginRequest, peer: str, caller: Caller | None) -> Message:
        """What one of the methods below answers."""
        match request:
            case DelegateLogin():
                return await self.delegate(request)
            case RenewLogins():
                return await self.renew(request)
            case LogOut():
                return await self.log_out(request)
            case _:
                return await self.log_in(request, peer, caller)

    async def delegate(self, request: DelegateLogin) -> LoggedIn:
        """Answers the token of a login with limits (`core/access/delegation.py`). Raises `Unauthenticated`,
        `Forbidden`, `Refused` (NO_USERS, TRANSACTION_UNKNOWN)."""
        _check_users(self._writer.catalog)

        def record(token: LoginToken, catalog: Catalog) -> tuple[Change, ...]:
            check_request(request, catalog)
            return record_delegated_login(token, request, catalog, self._wall_us())

        user = check_request(request, self._writer.catalog)
        return await self._logged_in("" if user is None else user.name, record)

    async def _with_password(self, request: Login, peer: str) -> PrincipalRecord:
        """The user whose password this is. Raises `WrongPassword`, `Refused` (BUSY)."""
        user, name = find_user(request.user, self._writer.catalog), _hash_name(request.user)
        lane = self._wrong.lane(name, peer, is_user=user is not None, now_ns=self._clock.now_ns())
        async with self._turn(lane, peer, name):
            matches = await self._matches(user, request.password)
        if user is None or not matches:
            now_ns = self._clock.now_ns()
            rest_ns = self._wrong.failed(name, is_user=user is not None, now_ns=now_ns)
            await self._clock.sleep_until(now_ns + rest_ns)
            raise wrong_password()
        self._wrong.succeeded(name, peer)
        return user

    async def _logged_in(self, user: str, record: Callable[[LoginToken, Catalog], tuple[Change, ...]]) -> LoggedIn:
        token = LoginToken(self._entropy.hex_128())
        record(token, self._writer.catalog)  # who is refused takes no place among the writes
        # The writes have one queue for all. A user whose logins are many waits here instead.
        few = self._few.setdefault(user, asyncio.Semaphore(LOGINS_AT_ONCE))
        async with few:
            revision = await self._writer.submit(lambda catalog: record(token, catalog))
        tell_who_asks(find_user(user, self._writer.catalog))
        self._since[hash_login(token)] = self._clock.now_ns()
        return LoggedIn(token=token, revision=revision)

    async def log_out(self, request: LogOut) -> LoggedOut:
        """Ends the login with this token; idempotent."""
        ended = [hash_login(request.token)]
        if ended[0] not in self._writer.catalog.logins:
            return LoggedOut(revision=self._writer.catalog.revision)  # a guess takes no place among the writes
        return LoggedOut(revision=await self._writer.submit(lambda catalog: logins_ended(ended, catalog)))

    async def renew(self, request: RenewLogins) -> LoginsRenewed:
        """Lets the delegated logins of an application live on, or ends them; idempotent."""
        application = hash_secret(request.application)

        def changes(catalog: Catalog) -> tuple[Change, ...]:
            if request.ends:
                return logins_ended(delegated_logins(application, catalog), catalog)
            return delegated_logins_renewed(application, catalog, self._wall_us())

        if application not in self._writer.catalog.applications:
            return LoginsRenewed(revision=self._writer.catalog.revision)  # a guess takes no place among the writes
        # To look at all its logins takes long, so a further request soon after one that renewed them changes nothing.
        async with self._gates.setdefault(application, asyncio.Lock()):
            renewed = self._renewed.get(application)
            is_recent = renewed is not None and self._clock.now_ns() - renewed.at_ns < DELEGATED_RENEW_REST_NS
            if renewed is not None and is_recent and not request.ends:
                return LoginsRenewed(revision=renewed.revision)
            at_ns, revision = self._clock.now_ns(), await self._writer.submit(changes)
            if not request.ends:
                self._renewed[application] = _Renewed(at_ns, revision)
            return LoginsRenewed(revision=revision)

    async def expire(self) -> None:
        """Ends the logins that this leader has known for LOGIN_TTL_NS, and the tokens that have expired."""
        now_ns = self._clock.now_ns()
        kept_ns = now_ns - DELEGATED_RENEW_REST_NS
        self._renewed = {application: one for application, one in self._renewed.items() if one.at_ns > kept_ns}
        known = self._writer.catalog.logins
        self._since = {one: self._since.get(one, now_ns) for one in known}
        wall_us = self._wall_us()
        old = {one for one, since_ns in self._since.items() if now_ns - since_ns >= LOGIN_TTL_NS}
        old.update(delegated_logins_expired(self._writer.catalog, wall_us))
        if old:
            await self._writer.submit(lambda catalog: logins_ended(sorted(old), catalog))
        if tokens_ended(self._writer.catalog, wall_us):
            await self._writer.submit(lambda catalog: tokens_ended(catalog, wall_us))

    async def _matches(self, user: PrincipalRecord | None, password: str) -> bool:
        """Whether this is the user's password. It takes the same time if there is no such user."""
        fits = len(password) <= PASSWORD_CHARACTERS_MAX
        stored = user.password_hash if user is not None and fits else None
        return await self._passwords.matches(stored, password[:PASSWORD_CHARACTERS_MAX])

    @contextlib.asynccontextmanager
    async def _turn(self, lane: Lane, peer: str, name: NameHash) -> AsyncGenerator[None]:
        """Waits for the turn of a check, and holds it. Raises `Refused` with code BUSY."""
        entered = self._queue.enter(lane, peer, name)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[entered.ticket] = turn
        if entered.displaced is not None:
            displaced = self._waiting.pop(entered.displaced)
            if not displaced.done():
                displaced.set_exception(too_many_passwords())
        self._begin_checks()
        try:
            await turn
            yield
        finally:
            self._waiting.pop(entered.ticket, None)
            self._queue.leave(entered.ticket)
            self._begin_checks()

    def _begin_checks(self) -> None:
        while (ticket := self._queue.next_ticket()) is not None:
            turn = self._waiting.pop(ticket)
            if not turn.done():  # done if its client has given up
                turn.set_result(None)


def _check_users(catalog: Catalog) -> None:
    if not catalog.users:
        text = "this cluster has no users: everybody may do everything"
        raise Refused(text, code=ErrorCode.NO_USERS, hint="connect without a user, or CREATE USER first")


def _hash_name(user: str) -> NameHash:
    return NameHash(hashlib.sha256(fold(user[:IDENTIFIER_CHARACTERS_MAX]).encode(errors="surrogatepass")).digest())
