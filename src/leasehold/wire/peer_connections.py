"""Connections of one peer to the doors of this process: further ones are closed.

gRPC bounds the connections to a port, and not those of one peer. A peer that holds them all keeps everybody else out.
So a thread looks at the sockets of this process, which cost a system call each, and shuts down what a peer has over
CONNECTIONS_PER_PEER_MAX. gRPC then closes these connections as if the peer had gone. A peer is an address of IPv4, or
the first half of one of IPv6: the second half is free to choose. The connections that were there first stay.

The same thread shuts down connections that are to `end`, since gRPC has no way to end one.
"""

import contextlib
import errno
import ipaddress
import os
import socket
import stat
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from leasehold.limits.requests import CONNECTIONS_LOOK_NS, CONNECTIONS_PER_PEER_MAX, PEERS_CACHED_MAX
from leasehold.limits.units import SECOND_NS

_FILES: Final = Path("/proc/self/fd")


class _Connection(NamedTuple):
    port: int
    """Of the door."""
    peer: str


class _Far(NamedTuple):
    """The other end of a connection."""

    address: str
    port: int


class PeerConnections:
    """Watches the doors with these ports until `close`; without ports there is nothing to watch."""

    def __init__(self, ports: frozenset[int], *, per_peer_max: int = CONNECTIONS_PER_PEER_MAX) -> None:
        self._ports = ports
        self._per_peer_max = per_peer_max
        self._known: dict[int, _Connection | None] = {}
        """By inode; None for a socket that is no connection to a door."""
        self._closed = threading.Event()
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._to_end: set[str] = set()
        if ports:
            threading.Thread(target=self._run, name="peer connections", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._woken.set()

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
        for _, number in _sockets([int(path.name) for path in _FILES.iterdir()]):
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
        """Shuts down what is too many; answers how many connections that were."""
        numbers = [int(path.name) for path in _FILES.iterdir()]
        if len(numbers) <= self._per_peer_max:
            return 0  # as nearly always: no peer can have too many
        sockets = dict(_sockets(numbers))
        known = {inode: one for inode, one in self._known.items() if inode in sockets}
        counted = Counter(known.values())
        shut = 0
        for inode in sockets.keys() - known.keys():
            with contextlib.suppress(OSError), _opened(sockets[inode]) as found:
                # Another file may have the number by now: what counts is what this one is.
                inode_now, one = os.fstat(found.fileno()).st_ino, self._connection(found)
                if one is not None and counted[one] >= self._per_peer_max:
                    found.shutdown(socket.SHUT_RDWR)
                    shut += 1
                else:
                    known[inode_now] = one
                    counted[one] += 1
        self._known = known
        return shut

    def _connection(self, found: socket.socket) -> _Connection | None:
        if found.family not in {socket.AF_INET, socket.AF_INET6}:
            return None
        port = found.getsockname()[1]
        return _Connection(port, peer_of(found.getpeername()[0])) if port in self._ports else None

    def _run(self) -> None:
        while not self._closed.is_set():
            self._woken.wait(CONNECTIONS_LOOK_NS / SECOND_NS)
            self._woken.clear()
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


def _sockets(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The inode and the number of each of these files that is a socket."""
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
