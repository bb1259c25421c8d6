"""What every engine of a log must do. An adapter subclasses `LogStoreSuite` and gives `engine`."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import pytest

from leasehold.errors import Definite, Indefinite
from leasehold.limits.log import STORE_SWAP_BYTES_MAX, STORE_SWAP_KEYS_MAX, STORE_VALUE_BYTES_MAX
from leasehold.metastorage.log.store import MISSING, LogStore, Swap


class Engine(Protocol):
    """A running engine; every client that it opens sees the same keys."""

    async def open(self) -> LogStore: ...


def create(**values: bytes) -> Swap:
    """Creates keys of the directory `log`."""
    keys = {f"log/{name}": value for name, value in values.items()}
    return Swap(unchanged=dict.fromkeys(keys, MISSING), puts=keys)


async def names(store: LogStore, directory: str, start: str = "", limit: int = 1000) -> list[str]:
    return [name for name, _ in await store.page(directory, start, limit=limit)]


class LogStoreSuite:
    @pytest.fixture
    def engine(self) -> Engine:
        raise NotImplementedError

    @pytest.fixture
    async def store(self, engine: Engine) -> AsyncIterator[LogStore]:
        store = await engine.open()
        yield store
        await store.close()

    @pytest.fixture
    async def other(self, engine: Engine) -> AsyncIterator[LogStore]:
        other = await engine.open()
        yield other
        await other.close()

    # ------------------------------------------------------------ swaps

    async def test_what_one_client_puts_another_gets(self, store: LogStore, other: LogStore) -> None:
        assert await other.get("log/head") is None
        versions = await store.swap(create(head=b"1"))
        assert versions is not None
        found = await other.get("log/head")
        assert found is not None
        assert (found.value, found.version) == (b"1", versions["log/head"])
        assert found.version != MISSING

    async def test_a_swap_happens_only_on_what_it_saw(self, store: LogStore, other: LogStore) -> None:
        first = await store.swap(create(head=b"1"))
        assert first is not None
        assert await other.swap(create(head=b"other")) is None
        second = await other.swap(Swap(unchanged=first, puts={"log/head": b"2"}))
        assert second is not None
        assert second != first
        assert await store.swap(Swap(unchanged=first, puts={"log/head": b"3"})) is None
        found = await store.get("log/head")
        assert found is not None
        assert found.value == b"2"

    async def test_a_swap_happens_whole_or_not_at_all(self, store: LogStore) -> None:
        head = await store.swap(create(head=b"1"))
        term = await store.swap(create(term=b"1"))
        assert head is not None
        assert term is not None
        puts = {"log/head": b"2", "entry/0001": b"e"}
        stale = {**head, "log/term": term["log/term"] + 7}
        assert await store.swap(Swap(unchanged=stale, puts=puts)) is None
        assert await store.get("entry/0001") is None
        after = await store.swap(Swap(unchanged={**head, **term, "entry/0001": MISSING}, puts=puts))
        assert after is not None
        assert after.keys() == puts.keys()
        head = {"log/head": after["log/head"]}
        assert await store.swap(Swap(unchanged=head, deletes=("entry/0001",))) == {}
        assert await store.get("entry/0001") is None
        assert await store.swap(Swap(unchanged={"entry/0001": MISSING}, puts={"log/head": b"3"})) is not None

    async def test_a_put_without_a_compare(self, store: LogStore) -> None:
        for value in (b"1", b"2"):
            assert await store.swap(Swap(unchanged={}, puts={"log/free": value})) is not None
        found = await store.get("log/free")
        assert found is not None
        assert found.value == b"2"

    async def test_a_swap_as_large_as_it_may_be(self, store: LogStore) -> None:
        count = STORE_SWAP_KEYS_MAX - 1
        puts = {f"part/{number:04}": bytes([number]) * (STORE_SWAP_BYTES_MAX // count) for number in range(count)}
        assert await store.swap(Swap(unchanged=dict.fromkeys(puts, MISSING), puts=puts)) is not None
        whole = b"x" * STORE_VALUE_BYTES_MAX
        assert await store.swap(Swap(unchanged={}, puts={"part/whole": whole})) is not None
        found = await store.get("part/whole")
        assert found is not None
        assert found.value == whole
        assert await store.swap(Swap(unchanged={}, deletes=tuple(puts))) == {}
        assert await names(store, "part") == ["whole"]

    async def test_of_swaps_at_once_one_happens(self, store: LogStore, other: LogStore) -> None:
        first = await store.swap(create(head=b"0"))
        assert first is not None
        tries = [one.swap(Swap(unchanged=first, puts={"log/head": b"x"})) for one in (store, other) * 10]
        assert sum(one is not None for one in await asyncio.gather(*tries)) == 1

    # ------------------------------------------------------------ lists

    async def test_a_list_is_in_order_and_of_one_directory(self, store: LogStore) -> None:
        for name in ("0002", "0001", "0003"):
            assert await store.swap(Swap(unchanged={}, puts={f"entry/{name}": name.encode()})) is not None
        assert await store.swap(Swap(unchanged={}, puts={"part/0002": b"p", "log/head": b"h"})) is not None
        assert await names(store, "entry") == ["0001", "0002", "0003"]
        assert await names(store, "entry", "0002") == ["0002", "0003"]
        assert await names(store, "entry", "00020") == ["0003"]
        assert await names(store, "entry", limit=2) == ["0001", "0002"]
        assert await names(store, "nothing") == []
        ((name, found),) = await store.page("part", limit=5)
        assert (name, found.value) == ("0002", b"p")
        assert found == await store.get("part/0002")

    async def test_a_long_list_comes_in_pieces(self, store: LogStore) -> None:
        wanted = [f"{number:04}" for number in range(12)]
        for name in wanted:
            put = Swap(unchanged={}, puts={f"chunk/{name}": b"x" * (STORE_VALUE_BYTES_MAX - 100)})
            assert await store.swap(put) is not None
        found: list[str] = []
        while piece := await names(store, "chunk", f"{found[-1]}0" if found else "", limit=1000):
            found += piece
        assert found == wanted

    async def test_deleting_below_a_name(self, store: LogStore) -> None:
        for number in range(300):
            assert await store.swap(Swap(unchanged={}, puts={f"entry/{number:04}": b"e"})) is not None
        assert await store.swap(Swap(unchanged={}, puts={"part/0000": b"p", "log/head": b"h"})) is not None
        await store.delete_below("entry", "0297")
        assert await names(store, "entry") == ["0297", "0298", "0299"]
        await store.delete_below("entry", "0297")
        assert await names(store, "part") == ["0000"]
        assert await store.get("log/head") is not None

    # ------------------------------------------------------------ watches, life

    async def test_a_watch_wakes_after_each_change(self, store: LogStore, other: LogStore) -> None:
        watch = other.watch("log/head")
        async with asyncio.timeout(60):
            await anext(watch)
            for number in range(5):
                assert await store.swap(Swap(unchanged={}, puts={"log/head": b"%d" % number})) is not None
                while (found := await other.get("log/head")) is None or found.value != b"%d" % number:
                    await anext(watch)
                await anext(watch)
        await watch.aclose()

    async def test_a_closed_client_answers_nothing(self, engine: Engine) -> None:
        store = await engine.open()
        watch = store.watch("log/head")
        await anext(watch)
        await store.close()
        await store.close()
        for request in (store.get("log/head"), store.page("log", limit=1), store.swap(create(head=b"1"))):
            with pytest.raises(Definite):
                await request
        with pytest.raises((Definite, Indefinite)):
            await anext(watch)

    async def test_size_and_members(self, store: LogStore) -> None:
        size = await store.size()
        assert size.used_bytes >= 0
        assert not size.is_full
        members = await store.members()
        assert members
        assert sum(one.leads for one in members) == 1
        await store.free_history()
