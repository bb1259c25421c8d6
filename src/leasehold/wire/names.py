"""Numeric addresses of hosts that are named, looked up on a thread beside the event loop."""

import asyncio
import contextlib
import queue
import socket
import threading
from typing import Final

import msgspec

from leasehold.core.words.addresses import numeric
from leasehold.limits.swim import NAME_LOOK_NS, NAMES_KEPT
from leasehold.limits.units import SECOND_NS


class _Name(msgspec.Struct, eq=False):
    host: str | None = None
    """As it was found last."""
    due_s: float | None = None
    """When to look again, on the clock of the loop; None while it is looked up."""


class HostNames:
    """Used on one event loop. `family`: of the addresses to find, `AF_UNSPEC` for any. `find` never waits: it starts a
    look-up for a new name, and again once NAME_LOOK_NS have passed. While that fails, what was found before counts."""

    def __init__(self, family: socket.AddressFamily) -> None:
        self._family: Final = family
        self._loop = asyncio.get_running_loop()
        self._names: dict[str, _Name] = {}
        self._asked: queue.SimpleQueue[str | None] | None = None

    def find(self, name: str) -> str | None:
        """The numeric address; None if none is known yet."""
        known = self._names.get(name)
        if known is None:
            if len(self._names) >= NAMES_KEPT:
                return None
            known = self._names[name] = _Name()
            self._ask(name)
        elif known.due_s is not None and self._loop.time() >= known.due_s:
            known.due_s = None
            self._ask(name)
        return known.host

    def close(self) -> None:
        """Ends the thread once it has no look-up to wait for; idempotent."""
        if self._asked is not None:
            self._asked.put(None)

    def _ask(self, name: str) -> None:
        if self._asked is None:
            self._asked = queue.SimpleQueue()
            threading.Thread(target=self._look, args=(self._asked,), name="names", daemon=True).start()
        self._asked.put(name)

    def _look(self, asked: "queue.SimpleQueue[str | None]") -> None:
        while (name := asked.get()) is not None:
            found = look_up(name, self._family)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._settle, name, found[0] if found else None)

    def _settle(self, name: str, host: str | None) -> None:
        known = self._names[name]
        known.host = host or known.host
        known.due_s = self._loop.time() + NAME_LOOK_NS / SECOND_NS


def look_up(name: str, family: socket.AddressFamily = socket.AF_UNSPEC) -> list[str]:
    """The numeric addresses of a name, the best one first; none if it is not known. It may take long."""
    try:
        found = socket.getaddrinfo(name, None, family, socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(host) for *_, address in found if numeric(host := str(address[0])) is not None))
