"""Datagrams over UDP, on this machine alone while there is no transport security.

An address that is none of this machine is not sent to, and a name is never looked up: that would hold up the loop.
What waits to be looked at waits in the kernel, which drops what is too much. It is read in batches with a rest after
each: a flood takes a bounded share of the loop, on which leases live too.
"""

import asyncio
import contextlib
import socket
from functools import lru_cache
from typing import Any

from leasehold.errors import BadSettings
from leasehold.limits.swim import DATAGRAM_ADDRESSES_KEPT, DATAGRAM_BYTES_MAX, DATAGRAMS_BATCH_MAX, DATAGRAMS_REST_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.addresses import loopback, not_bound


class UdpDatagrams:
    """Implements `wire.ports.Datagrams`; made by `listen`. One task at a time receives."""

    def __init__(self, bound: socket.socket) -> None:
        self._socket: socket.socket | None = bound
        self._loop = asyncio.get_running_loop()
        self._is_ipv6 = bound.family == socket.AF_INET6
        self._address = _written(bound.getsockname())
        self._woken = asyncio.Event()
        self._batch_left = DATAGRAMS_BATCH_MAX
        self._rest: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """The `host:port` it hears on."""
        return self._address

    def send(self, address: str, blob: bytes) -> None:
        """Hands one over, if the address is one of this machine; it is lost if the kernel takes no more."""
        target = _target(address)
        if self._socket is None or target is None or (":" in target[0]) is not self._is_ipv6:
            return
        with contextlib.suppress(OSError):
            self._socket.sendto(blob, target)

    async def receive(self) -> tuple[str, bytes]:
        """The next one and where it came from."""
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
        """One that has arrived already, if any has; None too for a moment after each batch."""
        if self._socket is None or self._rest is not None:
            return None
        try:
            # One byte more than is allowed shows as well as the whole that it is too long.
            blob, name = self._socket.recvfrom(DATAGRAM_BYTES_MAX + 1)
        except OSError:
            return None  # nothing there, or nobody hears where one was sent to
        self._batch_left -= 1
        if self._batch_left == 0:
            self._rest = self._loop.call_later(DATAGRAMS_REST_NS / SECOND_NS, self._go_on)
        return _written(name), blob

    def _go_on(self) -> None:
        self._rest = None
        self._batch_left = DATAGRAMS_BATCH_MAX
        self._woken.set()

    async def close(self) -> None:
        """Hears no more; idempotent."""
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        if self._rest is not None:
            self._rest.cancel()


async def listen(address: str) -> UdpDatagrams:
    """Hears at `address`, port 0 for any free one. Raises `BadSettings` if that can't be."""
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


def _written(name: tuple[Any, ...]) -> str:
    host, port = name[0], name[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
