"""Datagrams over UDP, on this machine alone while there is no transport security.

Nothing is sent to another machine's address, and no name is looked up: that would block the loop. Datagrams wait in the
kernel, which drops what is too much. They are read in batches with a rest after each, so a flood takes a bounded share
of the loop, which leases need too.
"""

import asyncio
import contextlib
import socket
from functools import lru_cache

from leasehold.errors import BadSettings
from leasehold.limits.swim import DATAGRAM_ADDRESSES_KEPT, DATAGRAM_BYTES_MAX, DATAGRAMS_BATCH_MAX, DATAGRAMS_REST_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.addresses import host_port, loopback, not_bound


class UdpDatagrams:
    """Implements `wire.ports.Datagrams`; made by `listen`. One task at a time receives."""

    def __init__(self, bound: socket.socket) -> None:
        self._socket: socket.socket | None = bound
        self._loop = asyncio.get_running_loop()
        self._is_ipv6 = bound.family == socket.AF_INET6
        self.address = host_port(*bound.getsockname()[:2])
        self._woken = asyncio.Event()
        self._batch_left = DATAGRAMS_BATCH_MAX
        self._rest: asyncio.TimerHandle | None = None

    def send(self, address: str, blob: bytes) -> None:
        target = _target(address)
        if self._socket is None or target is None or (":" in target[0]) is not self._is_ipv6:
            return
        with contextlib.suppress(OSError):
            self._socket.sendto(blob, target)

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
        try:
            # One byte too many is enough to show that it is too long.
            blob, name = self._socket.recvfrom(DATAGRAM_BYTES_MAX + 1)
        except OSError:
            return None  # nothing is there, or nobody receives at an address that was sent to
        self._batch_left -= 1
        if self._batch_left == 0:
            self._rest = self._loop.call_later(DATAGRAMS_REST_NS / SECOND_NS, self._go_on)
        return host_port(*name[:2]), blob

    def _go_on(self) -> None:
        self._rest = None
        self._batch_left = DATAGRAMS_BATCH_MAX
        self._woken.set()

    async def close(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        if self._rest is not None:
            self._rest.cancel()


async def listen(address: str) -> UdpDatagrams:
    """Receives at `address`; port 0 picks a free one. Raises `BadSettings`."""
    host, port = loopback(address)
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise not_bound(address, error) from error
    return UdpDatagrams(bound)


@lru_cache(maxsize=DATAGRAM_ADDRESSES_KEPT)
def _target(address: str) -> tuple[str, int] | None:
    try:
        return loopback(address)
    except BadSettings:
        return None
