"""The port `LogStore` on ZooKeeper. `layout` says where a key is, `transaction` what a swap is.

Groups that became empty are deleted with the keys below a name. A swap that creates a key there at the same time fails,
looks, and creates the group again.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final

from leasehold.errors import Unreachable
from leasehold.limits.log import STORE_QUOTA_BYTES, STORE_SWAP_BYTES_MAX, STORE_SWAP_KEYS_MAX, STORE_VALUE_BYTES_MAX
from leasehold.limits.zookeeper import (
    ZOOKEEPER_DELETES_MAX,
    ZOOKEEPER_NODE_BYTES,
    ZOOKEEPER_PAGE_BYTES_MAX,
    ZOOKEEPER_SWAP_TRIES_MAX,
    ZOOKEEPER_VALUES_MAX,
)
from leasehold.metastorage.log.store import StoreDenied, StoredValue, StoreMember, StoreSize, StoreUnsuitable, Swap
from leasehold.metastorage.tries import passed_over
from leasehold.metastorage.zookeeper.client import ZooKeeperClient
from leasehold.metastorage.zookeeper.connection import ZooKeeperConnection
from leasehold.metastorage.zookeeper.layout import Layout, group_of
from leasehold.metastorage.zookeeper.releases import release_warning
from leasehold.metastorage.zookeeper.transaction import (
    Create,
    Rejected,
    SwapStep,
    key_version,
    outcome_of,
    parents_of,
    steps_of,
    uncompared,
)
from leasehold.metastorage.zookeeper.values import Found

_NO_LIMIT: Final = b"count=-1,bytes=-1"
_NOTHING: Final = b"count=0,bytes=0"
_STATISTICS: Final = re.compile(rb"count=(\d{1,19}),bytes=(\d{1,19})")


class ZooKeeperStore:
    """Implements `LogStore` below one node; it closes its client. ZooKeeper has no quota of its own, so `quota_bytes`
    counts: a member keeps all in its heap."""

    def __init__(self, client: ZooKeeperClient, layout: Layout, *, quota_bytes: int = STORE_QUOTA_BYTES) -> None:
        self._client = client
        self._layout = layout
        self._quota_bytes = quota_bytes
        self._made: set[str] = set()
        """Nodes above keys, which are likely there."""

    @property
    def member(self) -> str:
        """As `LogStore.member`."""
        return self._client.asks_first

    async def get(self, key: str) -> StoredValue | None:
        return await self._client.read(lambda one: _value(one, self._layout.node(key)))

    async def page(self, directory: str, start: str = "", *, limit: int) -> list[tuple[str, StoredValue]]:
        assert limit > 0
        return await self._client.read(lambda one: self._page(one, directory, start, limit))

    async def swap(self, swap: Swap) -> Mapping[str, int] | None:
        assert 0 < len({*swap.unchanged, *swap.puts, *swap.deletes}) <= STORE_SWAP_KEYS_MAX
        assert all(len(value) <= STORE_VALUE_BYTES_MAX for value in swap.puts.values())
        assert sum(map(len, swap.puts.values())) <= STORE_SWAP_BYTES_MAX
        above, changed = parents_of(swap, self._layout), uncompared(swap, self._layout)
        deleted = {self._layout.node(key) for key in swap.deletes}
        missing = frozenset({*above, *changed} - self._made - deleted)
        for _ in range(ZOOKEEPER_SWAP_TRIES_MAX):
            outcome = await self._transact(steps_of(swap, self._layout, missing))
            if not isinstance(outcome, Rejected):
                self._made.update(above)
                return outcome
            if outcome.is_decided:
                return None
            missing = await self._missing((*above, *changed))
        raise Unreachable("too many clients of ZooKeeper change the same nodes", hint="try again")

    async def delete_below(self, directory: str, end: str) -> None:
        for group in await self._client.read(lambda one: self._groups(one, directory)):
            if group > group_of(end):
                break
            await self._delete(directory, group, end)

    def watch(self, key: str) -> AsyncGenerator[None, None]:
        return self._client.watch(self._layout.node(key))

    async def size(self) -> StoreSize:
        """Of this store alone: ZooKeeper counts what lies below a node once there is a quota for it, even one without a
        limit. Where the user may not set it, nobody tells."""
        path = f"{self._layout.quota}/zookeeper_stats"
        found = await self._client.read(lambda one: _value(one, path))
        if found is None:
            if not await self._client.write(self._count):
                return StoreSize(used_bytes=0, quota_bytes=None, is_full=False)
            found = await self._client.read(lambda one: _value(one, path))
        told = None if found is None else _STATISTICS.match(found.value)
        if told is None:
            raise StoreUnsuitable(f"ZooKeeper does not count at {path}", hint="delete this node")
        used_bytes = int(told[2]) + int(told[1]) * ZOOKEEPER_NODE_BYTES
        return StoreSize(used_bytes=used_bytes, quota_bytes=self._quota_bytes, is_full=False)

    async def members(self) -> list[StoreMember]:
        found, declines = await self._client.members()
        members = [
            StoreMember(
                name=address,
                address=address,
                version=status.version,
                leads=status.leads,
                warning=release_warning(address, status.version),
            )
            for address, status in found.items()
        ]
        return members + [passed_over(address, why) for address, why in declines.items()]

    def stand_by(self) -> None:
        """As `LogStore.stand_by`."""
        self._client.stand_by()

    async def free_history(self) -> None:
        """There is none."""

    async def close(self) -> None:
        await self._client.close()

    # ------------------------------------------------------------ over one connection

    async def _page(
        self, connection: ZooKeeperConnection, directory: str, start: str, limit: int
    ) -> list[tuple[str, StoredValue]]:
        found: list[tuple[str, StoredValue]] = []
        size = 0
        for group in await self._groups(connection, directory):
            if group < group_of(start):
                continue
            names = [name for name in await self._names(connection, directory, group) if name >= start]
            while names:
                count = min(ZOOKEEPER_VALUES_MAX, limit - len(found))
                some, names = names[:count], names[count:]
                paths = [self._layout.node(f"{directory}/{name}") for name in some]
                values = [_stored(one) for one in await connection.values(paths)]
                there = [(name, value) for name, value in zip(some, values, strict=True) if value is not None]
                found += there
                size += sum(len(value.value) for _, value in there)
                if len(found) == limit or size >= ZOOKEEPER_PAGE_BYTES_MAX:
                    return found
        return found

    async def _groups(self, connection: ZooKeeperConnection, directory: str) -> list[str]:
        groups = await connection.children(self._layout.directory(directory)) or ()
        if any(group_of(one) != one or not one.isascii() for one in groups):
            raise self._strange()
        return sorted(groups)

    async def _names(self, connection: ZooKeeperConnection, directory: str, group: str) -> list[str]:
        names = await connection.children(f"{self._layout.directory(directory)}/{group}") or ()
        if any(group_of(one) != group or not one.isascii() for one in names):
            raise self._strange()
        return sorted(names)

    async def _delete(self, directory: str, group: str, end: str) -> None:
        """Deletes the keys of a group below `end`, and the group if it is empty then."""
        names = await self._client.read(lambda one: self._names(one, directory, group))
        gone = [self._layout.node(f"{directory}/{name}") for name in names if name < end]
        path = f"{self._layout.directory(directory)}/{group}"

        async def delete(connection: ZooKeeperConnection) -> None:
            for at in range(0, len(gone), ZOOKEEPER_DELETES_MAX):
                await asyncio.gather(*(connection.delete(one) for one in gone[at : at + ZOOKEEPER_DELETES_MAX]))
            if len(gone) == len(names) and await connection.delete(path):
                self._made.discard(path)

        await self._client.write(delete)

    async def _transact(self, steps: Sequence[SwapStep]) -> Mapping[str, int] | Rejected:
        operations = [step.operation for step in steps]
        return outcome_of(steps, await self._client.write(lambda one: one.transact(operations)))

    async def _missing(self, paths: tuple[str, ...]) -> frozenset[str]:
        async def look(connection: ZooKeeperConnection) -> frozenset[str]:
            stats = await asyncio.gather(*(connection.stat(path) for path in paths))
            return frozenset(path for path, stat in zip(paths, stats, strict=True) if stat is None)

        return await self._client.read(look)

    async def _count(self, connection: ZooKeeperConnection) -> bool:
        """Whether ZooKeeper counts from now on."""
        quota = self._layout.quota
        nodes = {quota: b"", f"{quota}/zookeeper_limits": _NO_LIMIT, f"{quota}/zookeeper_stats": _NOTHING}
        try:
            for path, value in nodes.items():
                await connection.transact([Create(path, value)])  # which may be there
        except StoreDenied:
            return False
        return True

    def _strange(self) -> StoreUnsuitable:
        text = f"ZooKeeper holds nodes of another program below {self._layout.root}"
        return StoreUnsuitable(text, hint="choose another name for this cluster in meta")


async def _value(connection: ZooKeeperConnection, path: str) -> StoredValue | None:
    return _stored(await connection.get(path))


def _stored(found: Found | None) -> StoredValue | None:
    return None if found is None else StoredValue(value=found[0], version=key_version(found[1]))
