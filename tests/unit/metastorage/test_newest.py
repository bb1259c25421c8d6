"""Keys that are kept in memory with their newest values."""

import pytest

from leasehold.core.words.operations import KeyValue
from leasehold.ids import Revision
from leasehold.metastorage import newest
from leasehold.metastorage.newest import NewestKeys


def found(key: bytes, value: bytes, revision: int = 1) -> KeyValue:
    return KeyValue(key=key, value=value, created=Revision(1), modified=Revision(revision), version=revision)


class Store:
    """Counts what is read."""

    def __init__(self) -> None:
        self.keys = {b"a": found(b"a", b"1")}
        self.reads: list[bytes] = []
        self.newest = NewestKeys(self._read)

    def _read(self, key: bytes) -> KeyValue | None:
        self.reads.append(key)
        return self.keys.get(key)


def test_a_key_is_read_once_and_a_write_takes_its_place() -> None:
    store = Store()
    assert [store.newest[b"a"], store.newest[b"a"]] == [found(b"a", b"1")] * 2
    assert [store.newest[b"missing"], store.newest[b"missing"]] == [None] * 2
    assert store.reads == [b"a", b"missing"]
    store.newest.write({b"a": found(b"a", b"2", 2), b"missing": None, b"b": None})
    assert store.newest[b"a"] == found(b"a", b"2", 2)
    assert store.newest[b"b"] is None
    assert store.reads == [b"a", b"missing"]
    store.newest.clear()
    assert store.newest[b"a"] == found(b"a", b"1")


@pytest.mark.parametrize("written", [False, True])
def test_too_much_is_forgotten_at_the_next_bound(monkeypatch: pytest.MonkeyPatch, written: bool) -> None:
    monkeypatch.setattr(newest, "NEWEST_KEYS_BYTES_MAX", 10_000)
    store = Store()
    for number in range(1_000):
        key = b"%d" % number
        store.keys[key] = found(key, b"v")
        if written:
            store.newest.write({key: store.keys[key]})
        else:
            assert store.newest[key] is not None
        store.newest.bound()
        assert len(store.newest) < 10_000 // 32
    store.newest.write({b"large": found(b"large", bytes(10_001))})
    assert b"large" in store.newest, "the transactions of this commit need it"
    store.newest.bound()
    assert not store.newest
