"""Looking into a vault whose log ends early, or has pages of an earlier one."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.vault.filled_vaults import copied, fill, image
from tests.unit.vault.manifests import HASH, revision

from leasehold.ids import Revision
from leasehold.vault.inspect import CheckedVault, examine


def cut(log: Path, size_bytes: int) -> None:
    os.truncate(log, size_bytes)


def flip(log: Path, at: int) -> None:
    content = bytearray(log.read_bytes())
    content[at] ^= 1
    log.write_bytes(content)


PAGE = 24 + 4096
SHORT: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut in a page": (lambda log: cut(log, log.stat().st_size - 100), "page"),
    "cut in the header": (lambda log: cut(log, 10), "in its header"),
    "another header": (lambda log: flip(log, 0), "its header"),
    "a bit of the first page": (lambda log: flip(log, 32 + 24 + 50), "0 of its"),
    "a bit of the last page": (lambda log: flip(log, log.stat().st_size - 50), "pages are read"),
    "a commit without its end": (
        lambda log: log.write_bytes(log.read_bytes() + log.read_bytes()[32 : 32 + PAGE]),
        "of",
    ),
}


@pytest.mark.parametrize("damage", SHORT)
async def test_a_log_that_ends_early_is_told_and_is_no_damage(tmp_path: Path, damage: str) -> None:
    vault = await fill(tmp_path / "node")
    log = copied(tmp_path / "node", tmp_path / "copy")
    await vault.close()
    assert examine(tmp_path / "copy") == CheckedVault(findings=(), revision=Revision(7))
    spoil, told = SHORT[damage]
    spoil(log)
    before = image(tmp_path / "copy")
    checked = examine(tmp_path / "copy")
    assert checked.findings == ()
    assert checked.log is not None
    assert str(log) in checked.log
    assert told in checked.log
    assert image(tmp_path / "copy") == before


async def test_pages_of_an_earlier_log_behind_this_one_are_nothing_to_tell(tmp_path: Path) -> None:
    vault = await fill(tmp_path / "node")
    with closing(sqlite3.connect(tmp_path / "node" / "vault.db", isolation_level=None)) as other:
        (busy, pages, moved) = other.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        assert (busy, moved) == (0, pages)
        await vault.apply((revision(8),), HASH)
        log = copied(tmp_path / "node", tmp_path / "copy")
    await vault.close()
    assert log.stat().st_size > 32 + PAGE
    assert examine(tmp_path / "copy") == CheckedVault(findings=(), revision=Revision(8))
