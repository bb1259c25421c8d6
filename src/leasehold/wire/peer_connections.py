"""Connections of one peer to the doors of this process: further ones are closed.

Servers bound the connections to a port, and not those of one peer. A peer that holds them all keeps everybody else out.
So a thread looks at the sockets of this process, which cost a system call each, and shuts down what a peer has over
CONNECTIONS_PER_PEER_MAX. The server then closes these connections as if the peer had gone. A peer is an address of
IPv4, or the first half of one of IPv6: the second half is free to choose. The connections that were there first stay.

The same thread shuts down connections that are to `end`, those on which too much has come that belongs to no call
(`wire/connection_bytes.py`), and those of banned peers (`wire/bans.py`).
"""

import contextlib
import ipaddress
import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Collection, Generator, Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple
from urllib.parse import unquote

import msgspec

from leasehold.limits.bans import FAULT_BYTES, FAULTS_OF_CALL, FAULTS_OF_CUT, FAULTS_OF_FLOOD, FAULTS_OF_GONE
from leasehold.limits.requests import (
    CONNECTION_UNASKED_BYTES_MAX,
    CONNECTIONS_LOOK_NS,
    CONNECTIONS_LOOKED_MAX,
    CONNECTIONS_MAX,
    CONNECTIONS_PER_PEER_MAX,
    CONNECTIONS_UNASKED_BYTES_MAX,
    PEERS_CACHED_MAX,
)
from leasehold.limits.units import SECOND_NS
from leasehold.wire.backlog import Backlog, CountsCalls
from leasehold.wire.bans import Bans
from leasehold.wire.clock import BoottimeClock, worked_ns
from leasehold.wire.connection_bytes import A_CALL, NOTHING, Accounted, ConnectionBytes, of_message
from leasehold.wire.kept_out import KeptOut
from leasehold.wire.own_sockets import FarEnd, OwnSockets, plain

log = logging.getLogger(__name__)

_CLOCK: Final = BoottimeClock()


class _Connection(NamedTuple):
    door: int
    """Its port."""
    far: FarEnd

    @property
    def peer(self) -> str:
        return peer_of(self.far.address)

    @property
    def counted_as(self) -> tuple[int, str]:
        return self.door, self.peer


class _Heard(msgspec.Struct):
    """A connection to a door, and what has come on it."""

    far: FarEnd
    looked: int
    """The number of its last look."""
    bytes: ConnectionBytes = msgspec.field(default_factory=ConnectionBytes)


class PeerConnections:
    """Watches the doors with these ports until `close`; without ports there is nothing to watch."""

    def __init__(
        self,
        ports: frozenset[int],
        *,
        per_peer_max: int = CONNECTIONS_PER_PEER_MAX,
        accepted: CountsCalls | None = None,
    ) -> None:
        """With `accepted`, the calls that wait are watched too."""
        self._ports = ports
        self._per_peer_max = per_peer_max
        self._sockets = OwnSockets()
        self._known: dict[int, _Connection | None] = {}
        """By cookie; None for a socket that is no connection to a door."""
        self._bytes: OrderedDict[int, _Heard] = OrderedDict()
        """Of the connections to a door, by cookie: first the one that nobody has looked at for longest."""
        self._looked_ns = _CLOCK.now_ns()
        self._looks = 0
        """Those that would have been due by now: a busy process is late."""
        self._accounted: dict[str, Accounted] = {}
        """What calls have accounted for since the last look, by what gRPC calls their peer."""
        self._early: dict[FarEnd, Accounted] = {}
        """What calls had accounted for until the last look, on connections that were not seen yet."""
        self._expected: Counter[FarEnd | None] = Counter()
        """The bytes of rows that may be on their way."""
        self._bans = Bans()
        self._to_shut = set[str]()
        """Banned peers whose connections could not be shut down for want of a file."""
        self._kept_out = KeptOut(self._sockets.listening(ports) if ports else ())
        self._backlog = None if accepted is None else Backlog(accepted)
        self._faults: Counter[str] = Counter()
        """Of each peer, since the last look."""
        self._closed = threading.Event()
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._to_end: set[str] = set()
        if ports:
            threading.Thread(target=self._run, name="peer connections", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._woken.set()
        with self._lock:
            self._kept_out.close()

    def has_call(self, connection: str, *, of_member: bool = False) -> bool:
        """A call has begun on this connection, called as gRPC calls its peer, from a node or coordinator or somebody
        else. Answers whether it is to be served: its peer may be banned by now. If it is, it has to
        `end_call`, where calls that wait are watched. Any thread may say so."""
        self._account(connection, A_CALL)
        far = _far(connection)
        if far is None or not self._ports:
            return True
        peer = peer_of(far.address)
        if of_member:
            with self._lock:
                self._bans.is_member(peer)
        if peer in self._bans:
            return False
        if self._backlog is not None:
            self._backlog.begin(far)
        return True

    def end_call(self, connection: str) -> None:
        """Any thread may say so."""
        far = _far(connection)
        if far is not None and self._backlog is not None:
            self._backlog.end(far)

    def has_read(self, connection: str, size: int) -> None:
        """A message of a call was read. Any thread may say so."""
        self._account(connection, of_message(size))

    def has_fault(self, connection: str, faults: int = FAULTS_OF_CALL) -> None:
        """The client has cancelled a call before it was answered, does not take its answers, or asks for what it does
        not get. Any thread may say so."""
        self._blame(_far(connection), faults)

    def _blame(self, far: FarEnd | None, faults: int) -> None:
        if far is not None and self._ports:
            with self._lock:
                self._faults[peer_of(far.address)] += faults

    def _blame_cut(self, one: _Heard) -> None:
        self._blame(one.far, FAULTS_OF_FLOOD if one.bytes.is_flood else FAULTS_OF_CUT)

    @contextlib.contextmanager
    def expecting(self, connection: str, size: int) -> Generator[None]:
        """While a message of up to `size` bytes may be on its way. Any thread may say so."""
        far = _far(connection)
        with self._lock:
            self._expected[far] += size
        try:
            yield
        finally:
            with self._lock:
                self._expected[far] -= size
                if not self._expected[far]:
                    del self._expected[far]

    def _account(self, connection: str, said: Accounted) -> None:
        if self._ports:  # else nobody looks
            with self._lock:
                self._accounted[connection] = self._accounted.get(connection, NOTHING) + said

    def end(self, connections: Iterable[str]) -> None:
        """Shuts these connections to the doors down soon, each called as gRPC calls its peer. Any thread may ask."""
        with self._lock:
            self._to_end.update(connections)
        self._woken.set()

    def end_now(self) -> int:
        """Does what `end` has asked for; answers how many connections were found. Raises `OSError` if there is no file
        left to look with: then they are still to end."""
        with self._lock:
            wanted, self._to_end = self._to_end, set()
        try:
            return self._shut_down({_far(one) for one in wanted} - {None}) if wanted else 0
        except OSError:
            with self._lock:
                self._to_end |= wanted
            raise

    def _shut_down(self, wanted: Collection[FarEnd | None]) -> int:
        found = 0
        for cookie, number in self._sockets.cookies():
            one = self._connection(number)
            if one is not None and one.far in wanted and self._sockets.shut_down(number, cookie):
                self._blame(one.far, FAULTS_OF_CUT)
                found += 1
        return found

    def look(self) -> int:
        """Shuts down what is too many, and those on which too much has come; answers how many connections that
        were. Raises `OSError` if there is no file left to look with."""
        sockets = dict(self._sockets.cookies())
        shut = self._ban(sockets)
        known = {cookie: one for cookie, one in self._known.items() if cookie in sockets}
        counted = Counter(one.counted_as for one in known.values() if one is not None)
        for cookie in self._bytes.keys() - known.keys():
            gone = self._bytes.pop(cookie)
            if gone.bytes.unasked > CONNECTION_UNASKED_BYTES_MAX:
                self._blame_cut(gone)
        for cookie in sockets.keys() - known.keys():
            one = self._connection(sockets[cookie])
            if self._sockets.cookie(sockets[cookie]) != cookie:
                continue  # another file has the number by now: it is seen next time
            if one is not None and (counted[one.counted_as] >= self._per_peer_max or one.peer in self._bans):
                shut += self._sockets.shut_down(sockets[cookie], cookie)
                continue
            known[cookie] = one
            if one is not None:
                counted[one.counted_as] += 1
                self._bytes[cookie] = _Heard(one.far, self._looks)
        self._known = known
        return shut + self._shut_heavy(sockets) + self._shed(sockets)

    def _shed(self, sockets: Mapping[int, int]) -> int:
        """Bans who keeps all others waiting, if more calls wait than may. Calls that are gone are faults."""
        if self._backlog is None:
            return 0
        now_ns = _CLOCK.now_ns()
        self._backlog.forget({one.far for one in self._bytes.values()})
        unbegun = self._backlog.look(now_ns)
        if unbegun is None:
            return 0
        for far, gone in unbegun.newly_gone.items():
            self._blame(far, gone * FAULTS_OF_GONE)
        waiting = Counter[str]()
        for far, calls in unbegun.waiting.items():
            waiting[peer_of(far.address)] += calls
        if not waiting:
            return 0
        with self._lock:
            banned = self._bans.shed(waiting, now_ns)
        self._backlog.give_way(sum(waiting[peer] for peer in banned))
        return self._shut_banned(banned, sockets)

    def _ban(self, sockets: Mapping[int, int]) -> int:
        """Shuts down the connections of peers that are banned by now."""
        with self._lock:
            faults, self._faults = self._faults, Counter()
            banned = self._bans.look(faults, _CLOCK.now_ns(), worked_ns())
        return self._shut_banned(banned, sockets)

    def _shut_banned(self, banned: frozenset[str], sockets: Mapping[int, int]) -> int:
        """Keeps out who is banned, and shuts down the connections of those who are `banned` now."""
        with self._lock:
            self._kept_out.replace(self._bans.banned)
        for peer in banned:
            log.warning("%s floods this process with calls or bytes: its connections are closed for a while", peer)
        self._to_shut |= banned
        if not self._to_shut:
            return 0
        theirs = [cookie for cookie, one in self._known.items() if one is not None and one.peer in self._to_shut]
        shut = sum(self._sockets.shut_down(sockets[cookie], cookie) for cookie in theirs if cookie in sockets)
        self._to_shut.clear()
        return shut

    def _shut_heavy(self, sockets: Mapping[int, int]) -> int:
        now_ns = _CLOCK.now_ns()
        self._looks += max(1, (now_ns - self._looked_ns) // CONNECTIONS_LOOK_NS)
        self._looked_ns = now_ns
        self._account_for_calls()
        asked = (cookie for cookie, one in self._bytes.items() if one.bytes.has_asked)
        unasked = (cookie for cookie, one in self._bytes.items() if not one.bytes.has_asked)
        shut = 0
        for cookie in (*islice(asked, CONNECTIONS_LOOKED_MAX), *unasked):
            one, number = self._bytes[cookie], sockets[cookie]
            looks, expected = self._looks - one.looked, self._expected.get(one.far, 0)
            sent, received = self._sockets.moved(number)
            if self._sockets.cookie(number) != cookie:
                continue
            without_end = one.bytes.without_end(received, sent, looks, expected)
            self._blame(one.far, without_end // FAULT_BYTES)
            if one.bytes.is_too_much(received, looks, expected):
                shut += self._sockets.shut_down(number, cookie)
                self._blame_cut(self._bytes.pop(cookie))
                continue
            one.looked = self._looks
            self._bytes.move_to_end(cookie)
        return shut + self._shut_heaviest(sockets)

    def _shut_heaviest(self, sockets: Mapping[int, int]) -> int:
        """Of the connections on which no call has begun, until the others have no more than all of them may have."""
        unasked = {cookie: size for cookie, one in self._bytes.items() if (size := one.bytes.unasked)}
        left, shut = sum(unasked.values()), 0
        for cookie in sorted(unasked, key=unasked.__getitem__, reverse=True):
            if left <= CONNECTIONS_UNASKED_BYTES_MAX:
                break
            shut += self._sockets.shut_down(sockets[cookie], cookie)
            left -= unasked[cookie]
            self._blame_cut(self._bytes.pop(cookie))
        return shut

    def _account_for_calls(self) -> None:
        with self._lock:
            accounted, self._accounted = self._accounted, {}
        # A call may begin just before its connection is first seen, so what was said counts for two looks.
        sizes, early = dict(self._early), dict[FarEnd, Accounted]()
        for connection, said in accounted.items():
            far = _far(connection)
            if far is not None:
                sizes[far] = sizes.get(far, NOTHING) + said
                early[far] = said
        for one in self._bytes.values():
            if one.far in sizes:
                one.bytes.account(sizes[one.far])
                early.pop(one.far, None)
        self._early = early

    def _connection(self, number: int) -> _Connection | None:
        door = self._sockets.port(number)
        far = self._sockets.far_end(number) if door in self._ports else None
        return None if far is None else _Connection(door, far)

    def _run(self) -> None:
        wait_ns, next_ns = CONNECTIONS_LOOK_NS, 0
        while True:
            self._woken.wait(wait_ns / SECOND_NS)
            self._woken.clear()
            if self._closed.is_set():
                return
            began_ns = _CLOCK.now_ns()
            try:
                self.end_now()
                if began_ns >= next_ns:
                    next_ns = began_ns + CONNECTIONS_LOOK_NS
                    self.look()
            except OSError:
                pass  # no file is left to look with: it looks again soon
            except Exception:  # nobody would look any more
                log.exception("a look at the connections failed")
            wait_ns = max(0, next_ns - _CLOCK.now_ns())


@lru_cache(maxsize=PEERS_CACHED_MAX)
def peer_of(host: str) -> str:
    """The peer with this numeric address. Each call asks for it."""
    address = ipaddress.ip_address(host)
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((int(address), 64), strict=False))


@lru_cache(maxsize=2 * CONNECTIONS_MAX)
def _far(said: str) -> FarEnd | None:
    """The other end, from what gRPC says: `ipv4:192.0.2.1:50051` or `ipv6:%5B2001:db8::1%5D:50051`."""
    host, _, port = unquote(said).partition(":")[2].rpartition(":")
    try:
        return FarEnd(plain(ipaddress.ip_address(host.strip("[]").partition("%")[0])), int(port))
    except ValueError:
        return None
