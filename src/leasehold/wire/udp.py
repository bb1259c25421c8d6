"""Datagrams over UDP: to numeric addresses, and to names, which are looked up beside the event loop.

Datagrams wait in the kernel, which drops what is too much. They are read in batches with a rest after each, so a flood
takes a bounded share of the loop, which leases need too. A batch is bounded in time too: datagrams with the seal of
the cluster cost much more than those that are thrown away.
"""

import asyncio
import contextlib
import socket
from functools import lru_cache
from typing import Final, NamedTuple

from leasehold.core.words.addresses import numeric
from leasehold.errors import BadSettings
from leasehold.limits.swim import (
    DATAGRAM_ADDRESSES_KEPT,
    DATAGRAM_READ_BYTES_MAX,
    DATAGRAMS_BATCH_MAX,
    DATAGRAMS_BATCH_NS,
    DATAGRAMS_REST_NS,
)
from leasehold.limits.units import SECOND_NS
from leasehold.wire.addresses import EVERY_IPV6, anywhere, host_port, not_bound, split
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.names import HostNames

_now_ns: Final = BoottimeClock().now_ns
_MAPPED: Final = "::ffff:"
"""An address of IPv4, for a socket of both."""


class _Target(NamedTuple):
    host: str
    port: int
    is_name: bool


class UdpDatagrams:
    """Implements `wire.ports.Datagrams`; made by `listen`. One task at a time receives."""

    def __init__(self, bound: socket.socket) -> None:
        self._socket: socket.socket | None = bound
        self._loop = asyncio.get_running_loop()
        host, port = bound.getsockname()[:2]
        self._is_ipv6 = bound.family == socket.AF_INET6
        self._is_both = host == EVERY_IPV6
        self._names = HostNames(socket.AF_UNSPEC if self._is_both else bound.family)
        self.address = host_port(host, port)
        self._woken = asyncio.Event()
        self._batch_left = DATAGRAMS_BATCH_MAX
        self._batch_took_ns = 0
        self._given_ns: int | None = None
        """When a datagram was given out. Its receiver is done with it when it asks for the next one."""
        self._rest: asyncio.TimerHandle | None = None

    def send(self, address: str, blob: bytes) -> None:
        target = _target(address)
        if self._socket is None or target is None:
            return
        host = self._names.find(target.host) if target.is_name else target.host
        if host is None:
            return
        if (":" in host) is not self._is_ipv6:
            if not self._is_both:
                return
            host = _MAPPED + host
        with contextlib.suppress(OSError):
            self._socket.sendto(blob, (host, target.port))

    async def receive(self) -> tuple[str, bytes]:
        while (arrived := self.pending()) is None:
            self._woken.clear()
            reading = None if self._socket is None or self._rest is not None else self._socket.fileno()
            if reading is not None:
                self._loop.add_reader(reading, self._woken.set)
            try:
                await self._woken.wait()
            finally:
                if reading is not None and self._socket is not None:
                    self._loop.remove_reader(reading)
        return arrived

    def pending(self) -> tuple[str, bytes] | None:
        """As `Datagrams.pending`; None too for a moment after each batch."""
        if self._socket is None or self._rest is not None:
            return None
        if self._given_ns is not None:
            self._batch_took_ns += _now_ns() - self._given_ns
            self._given_ns = None
        if self._batch_left == 0 or self._batch_took_ns >= DATAGRAMS_BATCH_NS:
            self._rest = self._loop.call_later(DATAGRAMS_REST_NS / SECOND_NS, self._go_on)
            return None
        try:
            # One byte too many is enough to show that it is too long.
            blob, name = self._socket.recvfrom(DATAGRAM_READ_BYTES_MAX + 1)
        except OSError:
            return None  # nothing is there, or nobody receives at an address that was sent to
        self._batch_left -= 1
        self._given_ns = _now_ns()
        return host_port(name[0].removeprefix(_MAPPED), name[1]), blob

    def _go_on(self) -> None:
        self._rest = None
        self._batch_left = DATAGRAMS_BATCH_MAX
        self._batch_took_ns = 0
        self._woken.set()

    async def close(self) -> None:
        self._names.close()
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        if self._rest is not None:
            self._rest.cancel()


async def listen(address: str) -> UdpDatagrams:
    """Receives at a numeric `address` of this machine, or at all of them; port 0 picks a free one. Raises
    `BadSettings`."""
    host, port = anywhere(address)
    is_ipv6 = ":" in host
    bound = socket.socket(
        socket.AF_INET6 if is_ipv6 else socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    )
    try:
        if is_ipv6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != EVERY_IPV6)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise not_bound(address, error) from error
    return UdpDatagrams(bound)


@lru_cache(maxsize=DATAGRAM_ADDRESSES_KEPT)
def _target(address: str) -> _Target | None:
    try:
        host, port = split(address)
    except BadSettings:
        return None
    found = numeric(host)
    return _Target(host, port, is_name=True) if found is None else _Target(str(found), port, is_name=False)
