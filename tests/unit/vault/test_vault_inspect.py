"""Looking into a vault tells what it holds and no secret, finds damage, and changes nothing."""

import errno
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.vault.filled_vaults import CHANGES, CLUSTER, TOKEN, copied, fill, image
from tests.unit.vault.manifests import HASH, sql

from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.records import Claiming, IdentityRecord, Joining
from leasehold.errors import BadDirectory, Corrupt, NotFound
from leasehold.ids import Incarnation, NodeId, Nonce, Revision
from leasehold.limits.vault import VAULT_FORMAT_VERSION
from leasehold.vault.causes import explain
from leasehold.vault.format import content_hash
from leasehold.vault.inspect import CheckedVault, KeyFamily, examine, inspect
from leasehold.vault.store import SqliteVault

SHOWN = hashlib.sha256(TOKEN.encode()).hexdigest()[:8]
JOINING = Joining(token=TOKEN, node=NodeId(3), cluster_id=CLUSTER, previous=Incarnation(4), nonce=Nonce("d" * 32))
EARLIER = Claiming(token=TOKEN)


async def test_it_tells_what_is_there_and_changes_nothing(tmp_path: Path) -> None:
    await (await fill(tmp_path)).close()
    before = image(tmp_path)
    summary = inspect(tmp_path)
    assert examine(tmp_path).findings == ()
    assert image(tmp_path) == before
    assert (summary.state, summary.node, summary.cluster_id, summary.incarnation) == ("ALLOCATED", 3, CLUSTER, 4)
    assert (summary.applied, summary.durable, summary.lineage) == (7, 6, HASH)
    assert summary.coordinators == ("a:1", "b:2")
    assert summary.format_version == VAULT_FORMAT_VERSION
    assert summary.size_bytes == (tmp_path / "vault.db").stat().st_size
    assert sum(one.keys for one in summary.families) == 4
    assert summary.families == (
        KeyFamily(prefix="c/lineage", keys=1, size_bytes=len(keys.LINEAGE) + 5),
        KeyFamily(prefix="c/node/", keys=2, size_bytes=2 * len(keys.node(NodeId(1))) + 1),
        KeyFamily(prefix="c/segment/", keys=1, size_bytes=len(CHANGES[3].key) + len(CHANGES[3].value or b"")),
    )


async def test_a_token_is_shown_by_a_part_of_its_hash_only(tmp_path: Path) -> None:
    await (await fill(tmp_path)).close()
    summary = inspect(tmp_path)
    assert summary.token_sha256 == SHOWN
    assert TOKEN not in repr(summary)


@pytest.mark.parametrize(
    ("identity", "state", "node", "incarnation", "shown"),
    [
        (Claiming(token=TOKEN), "CLAIMING", None, None, SHOWN),
        (JOINING, "JOINING", 3, 4, SHOWN),
    ],
)
async def test_every_state_of_an_identity_is_told(
    tmp_path: Path, identity: IdentityRecord, state: str, node: int, incarnation: int, shown: str
) -> None:
    await (await fill(tmp_path, identity)).close()
    summary = inspect(tmp_path)
    assert (summary.state, summary.node, summary.incarnation, summary.token_sha256) == (state, node, incarnation, shown)
    assert examine(tmp_path).findings == ()


async def test_one_that_was_just_made_is_new(tmp_path: Path) -> None:
    await (await SqliteVault.open(tmp_path)).close()
    summary = inspect(tmp_path)
    assert (summary.state, summary.node, summary.incarnation, summary.token_sha256) == ("NEW", None, None, None)
    assert examine(tmp_path) == CheckedVault(findings=(), revision=Revision(0))


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        (f"UPDATE identity SET content = X'', sha256 = X'{content_hash('identity', b'').hex()}'", "is missing"),
        (
            (
                f"UPDATE identity SET content = X'{encode(EARLIER).hex()}',"
                f" sha256 = X'{content_hash('identity', encode(EARLIER)).hex()}'"
            ),
            "last one that was written",
        ),
        ("UPDATE identity SET (content, sha256) = (SELECT content, sha256 FROM coordinators)", "identity"),
        ("UPDATE coordinators SET (content, sha256) = (SELECT content, sha256 FROM identity)", "coordinators"),
    ],
    ids=["empty", "earlier", "the coordinators", "as coordinators"],
)
async def test_I5_a_page_that_holds_something_else_that_was_once_right_is_found(
    tmp_path: Path, statement: str, finding: str
) -> None:
    await (await fill(tmp_path)).close()
    sql(tmp_path / "vault.db", statement)
    (found,) = examine(tmp_path).findings
    assert finding in found
    with pytest.raises(Corrupt, match=finding):
        inspect(tmp_path)
    if finding != "coordinators":
        with pytest.raises(Corrupt, match=finding):
            await SqliteVault.open(tmp_path)


async def test_what_a_killed_process_left_in_the_log_is_seen_and_stays_there(tmp_path: Path) -> None:
    directory, copy = tmp_path / "node", tmp_path / "copy"
    vault = await fill(directory)
    copy.mkdir()
    for name in ("vault.db", "vault.db-wal"):
        shutil.copyfile(directory / name, copy / name)
    await vault.close()
    before = image(copy)
    assert len(before["vault.db-wal"][0]) > 0
    assert inspect(copy).applied == 7
    assert examine(copy).findings == ()
    assert image(copy) == before


HOLD = (
    "import asyncio, sys\n"
    "from pathlib import Path\n"
    "from leasehold.vault.store import SqliteVault\n"
    "async def main():\n"
    "    await SqliteVault.open(Path(sys.argv[1]))\n"
    "    sys.stdout.write('open\\n'); sys.stdout.flush()\n"
    "    sys.stdin.read()\n"
    "asyncio.run(main())\n"
)


@pytest.mark.processes
def test_a_directory_that_a_node_holds_is_refused(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        for look in (inspect, examine):
            with pytest.raises(BadDirectory) as caught:
                look(tmp_path)
            assert caught.value.code == "LOCKED"
            assert "leasehold status" in caught.value.hint
        holder.kill()
    assert inspect(tmp_path).applied == 0


@pytest.mark.parametrize("made", [True, False])
def test_a_directory_without_a_vault_is_told_and_stays_empty(tmp_path: Path, made: bool) -> None:
    directory = tmp_path / "node"
    if made:
        directory.mkdir()
    for look in (inspect, examine):
        with pytest.raises(NotFound) as caught:
            look(directory)
        assert caught.value.code == "NO_VAULT"
    assert directory.exists() == made
    assert not made or list(directory.iterdir()) == []


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("UPDATE projection SET value = X'00' WHERE key = CAST('c/lineage' AS BLOB)", "c/lineage"),
        ("DELETE FROM projection WHERE key = CAST('c/lineage' AS BLOB)", "items are lost"),
        ("UPDATE identity SET content = X'00'", "identity"),
        ("UPDATE coordinators SET sha256 = X'00'", "coordinators"),
        ("UPDATE applied SET revision = 8", "applied revision"),
        ("DROP TABLE projection", "no such table"),
        ("PRAGMA application_id = 1", "not a vault"),
    ],
)
async def test_damage_is_a_finding(tmp_path: Path, statement: str, finding: str) -> None:
    await (await fill(tmp_path)).close()
    sql(tmp_path / "vault.db", statement)
    (found,) = examine(tmp_path).findings
    assert finding in found


async def test_all_damage_is_listed(tmp_path: Path) -> None:
    await (await fill(tmp_path)).close()
    sql(tmp_path / "vault.db", "UPDATE identity SET sha256 = X'00'")
    sql(tmp_path / "vault.db", "UPDATE projection SET hash = X'00'")
    assert len(examine(tmp_path).findings) == 1 + len(CHANGES)


async def test_a_torn_file_is_a_finding_and_can_t_be_summed_up(tmp_path: Path) -> None:
    await (await fill(tmp_path)).close()
    path = tmp_path / "vault.db"
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(4096) + content[8192:])
    assert examine(tmp_path).findings
    with pytest.raises(Corrupt):
        inspect(tmp_path)


async def test_a_schema_that_is_no_text_is_a_finding_like_any_other(tmp_path: Path) -> None:
    """SQLite's words quote it, and Python fails to make an error of them."""
    await (await fill(tmp_path)).close()
    path = tmp_path / "vault.db"
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE applied", b"CR\xc5ATE TABLE applied"))
    with pytest.raises(Corrupt, match="no text"):
        inspect(tmp_path)
    assert any("no text" in one for one in examine(tmp_path).findings)


async def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    await (await fill(tmp_path)).close()
    sql(tmp_path / "vault.db", f"PRAGMA user_version = {VAULT_FORMAT_VERSION + 1}")
    with pytest.raises(BadDirectory) as caught:
        inspect(tmp_path)
    assert caught.value.code == "NEWER_VERSION"


# ------------------------------------------------------------ what can't be read


def modes(directory: Path) -> dict[str, int]:
    return {one.name: one.lstat().st_mode for one in directory.iterdir()}


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_log_that_is_a_folder(path: Path) -> None:
    path.with_name("vault.db-wal").mkdir()
    (path.with_name("vault.db-wal") / "file").write_bytes(b"")


def a_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def a_link_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to("not mounted")


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("spoil", [a_folder, a_log_that_is_a_folder, a_link, a_link_to_nothing, a_pipe])
async def test_what_can_t_be_read_is_no_damage(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    await (await fill(tmp_path)).close()
    spoil(tmp_path / "vault.db")
    for look in (inspect, examine):
        with pytest.raises(BadDirectory) as caught:
            look(tmp_path)
        assert caught.value.code == "NO_ACCESS"
        assert caught.value.hint
        assert not isinstance(caught.value, Corrupt)


@pytest.mark.parametrize("spoil", [a_folder, a_link, a_link_to_nothing, a_pipe])
async def test_I1_what_is_no_file_is_never_taken_for_a_first_start(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    await (await fill(tmp_path)).close()
    spoil(tmp_path / "vault.db")
    before = modes(tmp_path)
    with pytest.raises(BadDirectory) as caught:
        await SqliteVault.open(tmp_path)
    assert caught.value.code == "NO_ACCESS"
    assert modes(tmp_path) == before


@pytest.mark.parametrize("content", [b"no database", b""])
async def test_a_file_that_is_no_vault_keeps_its_mode(tmp_path: Path, content: bytes) -> None:
    foreign = tmp_path / "vault.db"
    foreign.write_bytes(content)
    foreign.chmod(0o644)
    with pytest.raises(Corrupt):
        await SqliteVault.open(tmp_path)
    assert (foreign.read_bytes(), foreign.stat().st_mode & 0o777) == (content, 0o644)


async def test_an_empty_file_is_told_as_that(tmp_path: Path) -> None:
    await (await fill(tmp_path)).close()
    (tmp_path / "vault.db").write_bytes(b"")
    assert "it is empty" in examine(tmp_path).findings[0]


def test_a_lock_that_is_a_pipe_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(NotFound):
        inspect(tmp_path)


async def test_no_room_for_the_copy_is_not_blamed_on_the_vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = await fill(tmp_path / "node")
    copied(tmp_path / "node", tmp_path / "copy")
    await vault.close()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfile", full)
    for look in (inspect, examine):
        with pytest.raises(BadDirectory, match="no space is left in ") as caught:
            look(tmp_path / "copy")
        assert (caught.value.code, "TMPDIR" in caught.value.hint) == ("DISK", True)


async def test_a_disk_that_fails_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = await fill(tmp_path / "node")
    copied(tmp_path / "node", tmp_path / "copy")
    await vault.close()

    def failing(*_paths: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(shutil, "copyfile", failing)
    for look in (inspect, examine):
        with pytest.raises(BadDirectory, match="Input/output") as caught:
            look(tmp_path / "copy")
        assert caught.value.code == "DISK"


@pytest.mark.parametrize(
    ("code", "kind", "expected"),
    [
        (sqlite3.SQLITE_READONLY, sqlite3.OperationalError, "NO_ACCESS"),
        (sqlite3.SQLITE_CANTOPEN, sqlite3.OperationalError, "NO_ACCESS"),
        (sqlite3.SQLITE_BUSY | 1 << 8, sqlite3.OperationalError, "LOCKED"),
        (sqlite3.SQLITE_IOERR | 1 << 8, sqlite3.OperationalError, "DISK"),
        (sqlite3.SQLITE_FULL, sqlite3.OperationalError, "DISK"),
        (sqlite3.SQLITE_CORRUPT, sqlite3.DatabaseError, "CORRUPT"),
        (sqlite3.SQLITE_NOTADB, sqlite3.DatabaseError, "CORRUPT"),
        (sqlite3.SQLITE_ERROR, sqlite3.OperationalError, "CORRUPT"),
        (None, sqlite3.DatabaseError, "CORRUPT"),
    ],
)
def test_every_error_of_sqlite_has_its_cause(
    code: int | None, kind: type[sqlite3.DatabaseError], expected: str
) -> None:
    error = kind("what SQLite says")
    if code is not None:
        error.sqlite_errorcode = code
    found = explain(Path("D/vault.db"), error)
    assert found.code == expected
    assert "what SQLite says" in found.text
    assert found.hint
