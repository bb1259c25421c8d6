"""The port `LogStore` on etcd.

A key of the store is `PREFIX/directory/name` in etcd, so clusters and other programs can share one etcd. The version of
a value is the revision of its last change (`mod_revision`).
"""

from collections.abc import AsyncGenerator, Mapping, Sequence

from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, Refused
from leasehold.limits.etcd import (
    ETCD_DELETE_KEYS_MAX,
    ETCD_PAGE_BYTES_MAX,
    ETCD_PAGE_KEYS_MAX,
    ETCD_QUOTA_RESERVE_PARTS,
)
from leasehold.limits.log import STORE_QUOTA_BYTES, STORE_SWAP_BYTES_MAX, STORE_SWAP_KEYS_MAX, STORE_VALUE_BYTES_MAX
from leasehold.metastorage.etcd.client import EtcdClient
from leasehold.metastorage.etcd.messages import (
    COMPACT,
    DELETE_RANGE,
    MOD,
    RANGE,
    TXN,
    CompactionRequest,
    Compare,
    DeleteRangeRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    StatusResponse,
    TxnRequest,
)
from leasehold.metastorage.etcd.releases import release_warning
from leasehold.metastorage.log.store import (
    MISSING,
    StoredValue,
    StoreFull,
    StoreMember,
    StoreSize,
    StoreUnsuitable,
    Swap,
)
from leasehold.metastorage.tries import passed_over


class EtcdStore:
    """Implements `LogStore` below one prefix; it closes its client. `quota_bytes` counts where etcd does not tell its
    own quota."""

    def __init__(self, client: EtcdClient, prefix: str, *, quota_bytes: int = STORE_QUOTA_BYTES) -> None:
        assert prefix, "keys of others would be below it"
        self._client = client
        self._prefix = prefix
        self._quota_bytes = quota_bytes
        self._history_end = 0
        """The newest revision when `free_history` was called last."""

    @property
    def member(self) -> str:
        """As `LogStore.member`."""
        return self._client.asks_first

    async def get(self, key: str) -> StoredValue | None:
        found = await self._client.read(RANGE, RangeRequest(key=self._key(key)))
        return StoredValue(value=found.kvs[0].value, version=found.kvs[0].mod_revision) if found.kvs else None

    async def page(self, directory: str, start: str = "", *, limit: int) -> list[tuple[str, StoredValue]]:
        assert limit > 0
        skip, end = len(self._key(f"{directory}/")), self._key(f"{directory}0")  # "0" follows "/"
        next_key = self._key(f"{directory}/{start}")
        found: list[tuple[str, StoredValue]] = []
        size, more = 0, True
        while more and len(found) < limit and size < ETCD_PAGE_BYTES_MAX:
            count = min(ETCD_PAGE_KEYS_MAX, limit - len(found))
            answer = await self._client.read(RANGE, RangeRequest(key=next_key, range_end=end, limit=count))
            for one in answer.kvs:
                found.append((self._name(one.key[skip:]), StoredValue(value=one.value, version=one.mod_revision)))
                size += len(one.value)
                next_key = one.key + b"\0"
            more = answer.more
        return found

    async def swap(self, swap: Swap) -> Mapping[str, int] | None:
        assert len({*swap.unchanged, *swap.puts, *swap.deletes}) <= STORE_SWAP_KEYS_MAX
        assert all(len(value) <= STORE_VALUE_BYTES_MAX for value in swap.puts.values())
        assert sum(map(len, swap.puts.values())) <= STORE_SWAP_BYTES_MAX
        assert swap.puts or swap.deletes, (
            "what changes nothing is answered from what one member knows, which may be old"
        )
        compares = [
            Compare(target=MOD, key=self._key(key), mod_revision=version) for key, version in swap.unchanged.items()
        ]
        puts = [PutRequest(key=self._key(key), value=value) for key, value in swap.puts.items()]
        operations = [RequestOp(request_put=put) for put in puts]
        deletes = [DeleteRangeRequest(key=self._key(key)) for key in swap.deletes]
        operations += [RequestOp(request_delete_range=delete) for delete in deletes]
        try:
            answer = await self._client.write(TXN, TxnRequest(compare=tuple(compares), success=tuple(operations)))
        except StoreFull as full:
            if await self._is_undone(swap):
                raise
            raise Indefinite("etcd became full at this write", hint="look whether it happened") from full
        return dict.fromkeys(swap.puts, answer.header.revision) if answer.succeeded else None

    async def delete_below(self, directory: str, end: str) -> None:
        start, stop, more = self._key(f"{directory}/"), self._key(f"{directory}/{end}"), True
        while more:
            request = RangeRequest(key=start, range_end=stop, limit=ETCD_DELETE_KEYS_MAX, keys_only=True)
            found = await self._client.read(RANGE, request)
            if not found.kvs:
                return
            more, step_end = found.more, found.kvs[-1].key + b"\0"
            await self._client.write(DELETE_RANGE, DeleteRangeRequest(key=start, range_end=step_end))
            start = step_end

    def watch(self, key: str) -> AsyncGenerator[None, None]:
        return self._client.watch(self._key(key))

    async def size(self) -> StoreSize:
        return store_size(await self._client.statuses(), self._quota_bytes)

    async def members(self) -> list[StoreMember]:
        found, declines = await self._client.members()
        members = [
            StoreMember(
                name=one.name,
                address=address,
                version=status.version,
                leads=status.leader == one.id,
                warning=release_warning(one.name, address, status.version),
            )
            for one, address, status in found
        ]
        return members + [passed_over(address, why) for address, why in declines.items()]

    def stand_by(self) -> None:
        """As `LogStore.stand_by`."""
        self._client.stand_by()

    async def free_history(self) -> None:
        """Gives up what was overwritten before the previous call, so other users of etcd keep what is newer."""
        end, self._history_end = self._history_end, self._client.seen.newest
        if end == 0:
            return
        try:
            await self._client.write(COMPACT, CompactionRequest(revision=end))
        except Refused as refused:
            if refused.code is not ErrorCode.COMPACTED:
                raise

    async def close(self) -> None:
        await self._client.close()

    def _key(self, key: str) -> bytes:
        return f"{self._prefix}/{key}".encode()

    def _name(self, name: bytes) -> str:
        if not name.isascii():
            text = f"etcd holds keys of another program below {self._prefix}/"
            raise StoreUnsuitable(text, hint="choose another name for this cluster in meta")
        return name.decode()

    async def _is_undone(self, swap: Swap) -> bool:
        """Whether a swap that found the store full surely did not happen: a key that it changes is as it was before."""
        key = next((one for one in (*swap.puts, *swap.deletes) if one in swap.unchanged), None)
        if key is None:
            return False
        try:
            found = await self.get(key)
        except Indefinite:
            return False
        return (MISSING if found is None else found.version) == swap.unchanged[key]


def store_size(statuses: Sequence[StatusResponse], quota_bytes: int) -> StoreSize:
    """The size of the fullest member. etcd compares the size of its file with the quota, and fills free pages in the
    file before the file grows. So free pages count as used only where the file can hardly grow any more."""

    def used_bytes(status: StatusResponse) -> int:
        quota = status.db_size_quota or quota_bytes
        can_grow = quota < 0 or quota - status.db_size > quota // ETCD_QUOTA_RESERVE_PARTS
        return status.db_size_in_use if can_grow else status.db_size

    fullest = max(statuses, key=used_bytes)
    quota = fullest.db_size_quota or quota_bytes
    return StoreSize(
        used_bytes=used_bytes(fullest),
        quota_bytes=quota if quota > 0 else None,
        is_full=any("NOSPACE" in error for status in statuses for error in status.errors),
    )
