"""Connections of one peer to the doors of this process: further ones are closed.

gRPC bounds the connections to a port, and not those of one peer. A peer that holds them all keeps everybody else out.
So a thread looks at the sockets of this process, which cost a system call each, and shuts down what a peer has over
CONNECTIONS_PER_PEER_MAX. gRPC then closes these connections as if the peer had gone. A peer is an address of IPv4, or
the first half of one of IPv6: the second half is free to choose. The connections that were there first stay.

The same thread shuts down connections that are to `end`, since gRPC has no way to end one. And it shuts down those on
which too much has come that belongs to no call (`wire/connection_bytes.py`).
"""

import contextlib
import errno
import ipaddress
import os
import socket
import stat
import struct
import threading
from collections import Counter, OrderedDict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple
from urllib.parse import unquote

import msgspec

from leasehold.limits.requests import (
    CONNECTION_CALL_BYTES,
    CONNECTIONS_LOOK_NS,
    CONNECTIONS_LOOKED_MAX,
    CONNECTIONS_MAX,
    CONNECTIONS_PER_PEER_MAX,
    CONNECTIONS_UNASKED_MAX,
    PEERS_CACHED_MAX,
)
from leasehold.limits.units import SECOND_NS
from leasehold.wire.connection_bytes import ConnectionBytes, bytes_of_message

_BYTES_RECEIVED: Final = struct.Struct("=128xQ")
"""Where the kernel tells it in `tcp_info` (linux/tcp.h)."""


class _Far(NamedTuple):
    """The other end of a connection."""

    address: str
    port: int


class _Connection(NamedTuple):
    door: int
    """Its port."""
    far: _Far

    @property
    def counted_as(self) -> tuple[int, str]:
        return self.door, peer_of(self.far.address)


class _Heard(msgspec.Struct):
    """A connection to a door, and what has come on it."""

    far: _Far
    looked: int
    """The number of its last look."""
    bytes: ConnectionBytes = msgspec.field(default_factory=ConnectionBytes)


class PeerConnections:
    """Watches the doors with these ports until `close`; without ports there is nothing to watch."""

    def __init__(self, ports: frozenset[int], *, per_peer_max: int = CONNECTIONS_PER_PEER_MAX) -> None:
        self._ports = ports
        self._per_peer_max = per_peer_max
        self._known: dict[int, _Connection | None] = {}
        """By inode; None for a socket that is no connection to a door."""
        self._bytes: OrderedDict[int, _Heard] = OrderedDict()
        """Of the connections to a door, by inode: first the one that nobody has looked at for longest."""
        self._looks = 0
        self._accounted: Counter[str] = Counter()
        """What calls have accounted for since the last look, by what gRPC calls their peer."""
        self._early: dict[_Far, int] = {}
        """What calls had accounted for until the last look, on connections that were not seen yet."""
        self._expected: Counter[_Far | None] = Counter()
        """The bytes of rows that may be on their way."""
        self._closed = threading.Event()
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._to_end: set[str] = set()
        if ports:
            threading.Thread(target=self._run, name="peer connections", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._woken.set()

    def has_call(self, connection: str) -> None:
        """A call has begun on this connection, called as gRPC calls its peer. Any thread may say so."""
        self._account(connection, CONNECTION_CALL_BYTES)

    def has_read(self, connection: str, size: int) -> None:
        """A message of a call was read. Any thread may say so."""
        self._account(connection, bytes_of_message(size))

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

    def _account(self, connection: str, size: int) -> None:
        if self._ports:  # else nobody looks
            with self._lock:
                self._accounted[connection] += size

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

    def _shut_down(self, wanted: Collection[_Far | None]) -> int:
        found = 0
        for _, number in _sockets():
            try:
                with _opened(number) as one:
                    if _far_end(one) in wanted and one.getsockname()[1] in self._ports:
                        one.shutdown(socket.SHUT_RDWR)
                        found += 1
            except OSError as error:  # as a rule it is not connected, or not any more
                if error.errno in {errno.EMFILE, errno.ENFILE}:
                    raise
        return found

    def look(self) -> int:
        """Shuts down what is too many, and those on which too much has come; answers how many connections that
        were."""
        sockets = dict(_sockets())
        known = {inode: one for inode, one in self._known.items() if inode in sockets}
        counted = Counter(one.counted_as for one in known.values() if one is not None)
        for inode in self._bytes.keys() - known.keys():
            del self._bytes[inode]
        shut = 0
        for inode in sockets.keys() - known.keys():
            with contextlib.suppress(OSError), _opened(sockets[inode]) as found:
                if os.fstat(found.fileno()).st_ino != inode:
                    continue  # another file has the number by now: it is seen next time
                one = self._connection(found)
                if one is not None and counted[one.counted_as] >= self._per_peer_max:
                    found.shutdown(socket.SHUT_RDWR)
                    shut += 1
                    continue
                known[inode] = one
                if one is not None:
                    counted[one.counted_as] += 1
                    self._bytes[inode] = _Heard(one.far, self._looks)
        self._known = known
        return shut + self._shut_heavy(sockets)

    def _shut_heavy(self, sockets: Mapping[int, int]) -> int:
        self._looks += 1
        self._account_for_calls()
        asked = (inode for inode, one in self._bytes.items() if one.bytes.has_asked)
        unasked = (inode for inode, one in self._bytes.items() if not one.bytes.has_asked)
        crowded = sum(one.bytes.is_heavy_unasked for one in self._bytes.values()) > CONNECTIONS_UNASKED_MAX
        shut = 0
        for inode in (*islice(asked, CONNECTIONS_LOOKED_MAX), *unasked):
            one = self._bytes[inode]
            looks, expected = self._looks - one.looked, self._expected.get(one.far, 0)
            with contextlib.suppress(OSError), _opened(sockets[inode]) as found:
                if os.fstat(found.fileno()).st_ino != inode:
                    continue
                if one.bytes.is_too_much(_received(found), looks, expected, crowded=crowded):
                    found.shutdown(socket.SHUT_RDWR)
                    del self._bytes[inode]
                    shut += 1
                    continue
            one.looked = self._looks
            self._bytes.move_to_end(inode)
        return shut

    def _account_for_calls(self) -> None:
        with self._lock:
            accounted, self._accounted = self._accounted, Counter()
        # A call may begin just before its connection is first seen, so what was said counts for two looks.
        sizes, early = Counter(self._early), Counter[_Far]()
        for said, size in accounted.items():
            far = _far(said)
            if far is not None:
                sizes[far] += size
                early[far] += size
        for one in self._bytes.values():
            if one.far in sizes:
                one.bytes.account(sizes[one.far])
                early.pop(one.far, None)
        self._early = early

    def _connection(self, found: socket.socket) -> _Connection | None:
        far = _far_end(found)
        door = 0 if far is None else found.getsockname()[1]
        return _Connection(door, far) if far is not None and door in self._ports else None

    def _run(self) -> None:
        while not self._closed.is_set():
            self._woken.wait(CONNECTIONS_LOOK_NS / SECOND_NS)
            self._woken.clear()
            if self._closed.is_set():
                return
            with contextlib.suppress(OSError):  # no file is left to look with: it looks again soon
                self.end_now()
                self.look()


@lru_cache(maxsize=PEERS_CACHED_MAX)
def peer_of(host: str) -> str:
    """The peer with this numeric address. Each call asks for it."""
    address = ipaddress.ip_address(host)
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((int(address), 64), strict=False))


@lru_cache(maxsize=2 * CONNECTIONS_MAX)
def _far(said: str) -> _Far | None:
    """The other end, from what gRPC says: `ipv4:192.0.2.1:50051` or `ipv6:%5B2001:db8::1%5D:50051`."""
    host, _, port = unquote(said).partition(":")[2].rpartition(":")
    try:
        return _Far(_plain(host.strip("[]")), int(port))
    except ValueError:
        return None


def _far_end(one: socket.socket) -> _Far | None:
    """Raises `OSError` for a socket without a peer."""
    if one.family not in {socket.AF_INET, socket.AF_INET6}:
        return None
    host, port, *_ = one.getpeername()
    return _Far(_plain(host), port)


def _plain(host: str) -> str:
    """The numeric address without its interface. Raises `ValueError`."""
    address = ipaddress.ip_address(host.partition("%")[0])
    return str(address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else str(address)


def _received(one: socket.socket) -> int:
    """How many bytes have come on a connection."""
    told = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
    return _BYTES_RECEIVED.unpack(told)[0] if len(told) == _BYTES_RECEIVED.size else 0


def _sockets() -> Iterator[tuple[int, int]]:
    """The inode and the number of each file of this process that is a socket."""
    with os.scandir("/proc/self/fd") as files:
        numbers = [int(one.name) for one in files]
    for number in numbers:
        with contextlib.suppress(OSError):
            found = os.fstat(number)
            if stat.S_ISSOCK(found.st_mode):
                yield found.st_ino, number


def _opened(number: int) -> socket.socket:
    """The same socket under a number of its own. Raises `OSError`."""
    own = os.dup(number)
    try:
        return socket.socket(fileno=own)
    except OSError:
        os.close(own)
        raise
