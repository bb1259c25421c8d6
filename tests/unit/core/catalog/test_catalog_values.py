"""A catalog is a value: nothing hangs on it by which who decides on it could read a disk, or wait."""

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rpds import HashTrieMap

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import Held, Holding, Patch, Shelf
from leasehold.vault.store import SqliteVault
from tests.unit.vault.manifests import CLAIMING, HASH, revision, segment

FIRST = (segment(1, 0, 1), segment(1, 0, 2), segment(7, 15, 4))
PARTS = (Shelf, Patch, Held)
"""What is made of other objects and is neither a record nor a map."""


def reachable(thing: object) -> Iterator[object]:
    """Everything that `thing` is made of, itself first."""
    if isinstance(thing, type):
        return
    yield thing
    parts: list[object] = []
    if isinstance(thing, msgspec.Struct):
        parts = [getattr(thing, name) for name in thing.__struct_fields__]
    elif isinstance(thing, PARTS):
        parts = [getattr(thing, name) for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    elif isinstance(thing, Mapping):
        parts = [*thing.keys(), *thing.values()]
    elif isinstance(thing, tuple | list | set | frozenset):
        parts = list(thing)
    for part in parts:
        yield from reachable(part)


def strange(catalog: Catalog) -> set[type]:
    """The kinds of what hangs on it that are neither plain values, nor persistent maps, nor words of the core."""
    plain = ("builtins.", "rpds.", "leasehold.core.", "leasehold.ids.")
    return {kind for kind in map(type, reachable(catalog)) if not f"{kind.__module__}.".startswith(plain)}


async def test_no_connection_and_no_lock_hangs_on_a_node_s_catalog(tmp_path: Path) -> None:
    vault = await SqliteVault.open(tmp_path)
    await vault.write_identity(CLAIMING)
    await vault.apply((revision(1, *FIRST),), HASH)
    catalog = Catalog.reopened(await vault.reopened()).changed([segment(1, 3, 5)])
    assert strange(catalog) == set()
    await vault.close()


@pytest.mark.parametrize("asked", [False, True])
def test_nor_on_a_leader_s(asked: bool) -> None:
    held = Holding()
    held.taking(FIRST)
    catalog = Catalog().holding(held.segments, held.replaced).changed([segment(1, 0, 5)])
    if asked:
        assert len(dict(catalog.segments.items())) == 2
    assert strange(catalog) == set()


def test_what_would_hang_on_it_is_found() -> None:
    wrong: list[Any] = [threading.Lock(), sqlite3.connect(":memory:"), Path()]
    for one in wrong:
        assert strange(Catalog(segments=Shelf(HashTrieMap({(1, 0): one})))) == {type(one)}
