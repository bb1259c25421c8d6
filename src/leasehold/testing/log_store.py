"""A `LogStore` in memory with fault knobs. A `KeptLog` outlives the handles opened on it, as an engine outlives its
clients.

A member of it may lag: then a read may be answered from an older state (`RequestFate.STALE`), as by the releases of
etcd with that fault. Each answer has the revision of its state. The client judges it by the rule of the client of etcd
(`metastorage/seen_revision.py`), and asks again, as if it asked another member.
"""

import asyncio
from bisect import bisect_left, insort
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from leasehold.errors import Unreachable
from leasehold.limits.log import STORE_SWAP_BYTES_MAX, STORE_SWAP_KEYS_MAX, STORE_VALUE_BYTES_MAX
from leasehold.metastorage.log.store import (
    MISSING,
    StoreDenied,
    StoredValue,
    StoreFull,
    StoreMember,
    StoreSize,
    StoreUnsuitable,
    Swap,
)
from leasehold.metastorage.seen_revision import SeenRevision
from leasehold.metastorage.tries import TryFailed
from leasehold.testing.requests import AfterHook, BeforeHook, FaultyClient, RequestFate, prompt, undisturbed

T = TypeVar("T")

LIST_BYTES_MAX: Final = 1024 * 1024
MEMBERS: Final = 3
"""How often a read is asked for whose answers are old: at each member once."""


class KeptLog:
    """What is durable: every key with its value and version."""

    def __init__(self) -> None:
        self.values: dict[str, StoredValue] = {}
        self.quota_bytes: int | None = None
        self.is_full = False
        self.declines: StoreDenied | StoreUnsuitable | None = None
        """What every client gets, if it is not served."""
        self.warning = ""
        """As `StoreMember.warning`, of its only member."""
        self.may_read_stale = False
        """Whether clients have to know that answers to reads may be old, as they know of the releases of etcd."""
        self.lagging: KeptLog | None = None
        """The state of a member that lags: that before the newest change."""
        self._keys: list[str] = []
        self._version = 1
        self._changed: dict[asyncio.Event, str] = {}
        self._compared: set[str] = set()
        """Keys of which a swap has compared a version."""
        self.on_swap: list[Callable[[Swap], None]] = []
        """Called with each swap that happened."""

    @property
    def revision(self) -> int:
        """Counts the changes."""
        return self._version

    def lag(self) -> None:
        """Lets a member lag by one change from now on, until `lagging` is None again."""
        self.lagging = self.copy()

    def copy(self) -> "KeptLog":
        """Like a snapshot of the engine."""
        copied = KeptLog()
        copied.values, copied._keys, copied._version = dict(self.values), list(self._keys), self._version
        return copied

    def set_back(self, copied: "KeptLog") -> None:
        """Takes the place of what is there, like a snapshot that was restored. Versions go on."""
        self.values, self._keys = dict(copied.values), list(copied._keys)

    def get(self, key: str) -> StoredValue | None:
        return self.values.get(key)

    def page(self, directory: str, start: str, limit: int) -> list[tuple[str, StoredValue]]:
        found: list[tuple[str, StoredValue]] = []
        size = 0
        for key in self._keys[bisect_left(self._keys, f"{directory}/{start}") :]:
            if not key.startswith(f"{directory}/") or len(found) == limit:
                break
            value = self.values[key]
            size += len(value.value)
            if found and size > LIST_BYTES_MAX:
                break
            found.append((key.partition("/")[2], value))
        return found

    def swap(self, swap: Swap) -> Mapping[str, int] | None:
        self._compared.update(key for key, version in swap.unchanged.items() if version != MISSING)
        for key, version in swap.unchanged.items():
            standing = self.values.get(key)
            if (MISSING if standing is None else standing.version) != version:
                return None
        if self.is_full and swap.puts:
            raise StoreFull("the store is full", hint="make room")
        if self.lagging is not None:
            self.lag()
        self._version += 1
        for key, value in swap.puts.items():
            if key not in self.values:
                insort(self._keys, key)
            self.values[key] = StoredValue(value=value, version=self._version)
        for key in swap.deletes:
            self._delete(key)
        for hear in self.on_swap:
            hear(swap)
        for event, key in self._changed.items():
            if key in swap.puts or key in swap.deletes:
                event.set()
        return dict.fromkeys(swap.puts, self._version)

    def delete_below(self, directory: str, end: str) -> None:
        first, last = bisect_left(self._keys, f"{directory}/"), bisect_left(self._keys, f"{directory}/{end}")
        for key in self._keys[first:last]:
            self._delete(key)

    def size(self) -> StoreSize:
        used = sum(len(key) + len(one.value) for key, one in self.values.items())
        return StoreSize(used_bytes=used, quota_bytes=self.quota_bytes, is_full=self.is_full)

    def follow(self, key: str) -> asyncio.Event:
        """An event that is set at each change of the key, until `unfollow`."""
        event = asyncio.Event()
        self._changed[event] = key
        return event

    def unfollow(self, event: asyncio.Event) -> None:
        del self._changed[event]

    def _delete(self, key: str) -> None:
        assert key not in self._compared, "its version may come again"
        if self.values.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]


class MemoryLogStore(FaultyClient):
    """One client of a `KeptLog`."""

    store_name = "the store"

    def __init__(self, kept: KeptLog, *, before: BeforeHook = undisturbed, after: AfterHook = prompt) -> None:
        super().__init__(before, after)
        self.kept = kept
        self.member = "store:1"
        self._stands_by = False
        self._seen = SeenRevision()
        self._watching: set[asyncio.Event] = set()

    async def get(self, key: str) -> StoredValue | None:
        return await self._read(f"get {key}", lambda kept: kept.get(key))

    async def page(self, directory: str, start: str = "", *, limit: int) -> list[tuple[str, StoredValue]]:
        assert limit > 0
        return await self._read(f"page {directory}", lambda kept: kept.page(directory, start, limit))

    async def _read(self, name: str, read: Callable[[KeptLog], T]) -> T:
        kept = self.kept
        if kept.may_read_stale:
            revision = await self._request("swap", lambda: kept.revision)  # of nothing
            self._seen.take(revision, asked_at=0)
        asked_at = self._seen.newest
        for _ in range(MEMBERS):
            revision, answer = await self._request(
                name, partial(_state_and, read, kept), partial(_state_and, read, kept.lagging or kept)
            )
            try:
                self._seen.take(revision, asked_at=asked_at)
            except TryFailed:
                continue
            return answer
        raise self._lost()

    async def swap(self, swap: Swap) -> Mapping[str, int] | None:
        assert len({*swap.unchanged, *swap.puts, *swap.deletes}) <= STORE_SWAP_KEYS_MAX
        assert all(len(value) <= STORE_VALUE_BYTES_MAX for value in swap.puts.values())
        assert sum(map(len, swap.puts.values())) <= STORE_SWAP_BYTES_MAX
        versions = await self._request(" ".join(("swap", *swap.puts)), lambda: self.kept.swap(swap))
        self._seen.take(max((versions or {}).values(), default=0), asked_at=0)
        return versions

    async def delete_below(self, directory: str, end: str) -> None:
        await self._request(f"delete_below {directory}", lambda: self.kept.delete_below(directory, end))

    async def watch(self, key: str) -> AsyncGenerator[None, None]:
        kept = self.kept
        changed = kept.follow(key)
        self._watching.add(changed)
        try:
            while not self._is_closed:
                yield None
                await self._next(changed, key)
            raise self._lost()
        finally:
            self._watching.discard(changed)
            kept.unfollow(changed)

    async def _next(self, changed: asyncio.Event, key: str) -> None:
        """Waits for the next change that the watch hears of: each may be late, or missed."""
        fate = RequestFate.LOST_BEFORE
        while fate is RequestFate.LOST_BEFORE and not self._is_closed:
            await changed.wait()
            changed.clear()
            fate = await self.before(f"watch {key}")

    async def size(self) -> StoreSize:
        return await self._request("size", self.kept.size)

    async def members(self) -> list[StoreMember]:
        self._check_served()
        return [StoreMember(name="memory", address="memory", version="1", leads=True, warning=self.kept.warning)]

    def stand_by(self) -> None:
        """As `LogStore.stand_by`."""
        self._stands_by = True

    async def _request(self, name: str, happen: Callable[[], T], stale: Callable[[], T] | None = None) -> T:
        return await super()._request(name, partial(self._if_served, happen), stale and partial(self._if_served, stale))

    def _if_served(self, happen: Callable[[], T]) -> T:
        self._check_served()
        return happen()

    def _check_served(self) -> None:
        error = self.kept.declines
        if error is not None:
            raise Unreachable(error.text, code=error.code, hint=error.hint) if self._stands_by else error

    async def free_history(self) -> None:
        """There is none."""

    async def close(self) -> None:
        self.sever()

    def sever(self) -> None:
        """Ends everything of the handle at once, like the death of its process; idempotent."""
        self._is_closed = True
        for changed in self._watching:
            changed.set()


def _state_and(read: Callable[[KeptLog], T], kept: KeptLog) -> tuple[int, T]:
    """The revision of a state, and what is read from it."""
    return kept.revision, read(kept)
