"""Vaults that hold something, and copies of them as a kill leaves them."""

import shutil
from pathlib import Path

from tests.unit.vault.manifests import HASH, revision, segment

from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import Allocated, IdentityRecord
from leasehold.ids import ClusterId, Incarnation, NodeId, Token
from leasehold.vault.store import SqliteVault

TOKEN = Token("ab" * 16)
CLUSTER = ClusterId("c" * 32)
ALLOCATED = Allocated(token=TOKEN, node=NodeId(3), cluster_id=CLUSTER, incarnation=Incarnation(4))
CHANGES = (
    Change(keys.LINEAGE, b"12345"),
    Change(keys.node(NodeId(1)), b"1"),
    Change(keys.node(NodeId(2)), b""),
    segment(1, 0, 1),
)


def image(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in directory.iterdir()}


async def fill(directory: Path, identity: IdentityRecord = ALLOCATED) -> SqliteVault:
    vault = await SqliteVault.open(directory)
    await vault.write_identity(identity)
    await vault.write_coordinators(("a:1", "b:2"))
    await vault.apply((revision(6),), HASH)
    await vault.sync()
    await vault.apply((revision(7, *CHANGES),), HASH)
    return vault


def copied(directory: Path, copy: Path) -> Path:
    """As a kill leaves it."""
    copy.mkdir()
    for name in ("vault.db", "vault.db-wal"):
        shutil.copyfile(directory / name, copy / name)
    return copy / "vault.db-wal"
