"""Places of each kind to recover from: how far each goes, what is damaged, and that none of them is changed."""

import resource
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import aclosing, closing
from pathlib import Path
from typing import Final

import pytest

from leasehold.coordinator.sources import RecoverySource, SourceKind, examine, sources_at
from leasehold.coordinator.stored_catalog import read_catalog
from leasehold.core.membership.generations import end_of
from leasehold.core.words import keys
from leasehold.core.words.lineage import next_lineage
from leasehold.core.words.operations import Change
from leasehold.core.words.records import MetaMoveRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, LeaseholdError, NotFound
from leasehold.ids import EntryId, ObjectId
from leasehold.limits.membership import GENERATION_GAP
from leasehold.limits.messages import FORMAT_VERSION
from leasehold.limits.vault import VAULT_FORMAT_VERSION
from leasehold.metastorage.contract import MetaStorage
from leasehold.metastorage.database import Database
from leasehold.metastorage.file_move import MovableDatabase
from leasehold.metastorage.moved import MetaMoved
from leasehold.metastorage.sqlite import FILE_NAME, SqliteMetaStorage
from leasehold.vault.store import SqliteVault
from tests.backup_words import CLUSTER_ID, WALL_S, commit, database
from tests.unit.coordinator.recovery_places import RecoveryGround, follow, image, make, state, write_vault

KINDS: Final = ("backup", "coordinator", "replica", "node")


@pytest.fixture
def ground(tmp_path: Path) -> RecoveryGround:
    return RecoveryGround(tmp_path / "recovered")


async def values(storage: MetaStorage) -> dict[bytes, bytes]:
    page = await storage.range(keys.WATCH_START, keys.WATCH_END, limit=1_000)
    return {one.key: one.value for one in page.items}


# ------------------------------------------------------------ each kind


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_is_read_as_it_is_and_goes_on(kind: str, ground: RecoveryGround, tmp_path: Path) -> None:
    source = await make(kind, tmp_path / "place", more=2)
    assert sources_at(source.path) == [source]
    place, before = image(source.path), await state(more=2)
    catalog = await read_catalog(before)
    done = await ground.recover(source)
    assert image(source.path) == place
    assert done.taken == source
    facts = done.restored.facts
    assert (facts.cluster.cluster_id, facts.end.lineage) == (CLUSTER_ID, catalog.lineage)
    assert facts.end.revision == catalog.revision - (kind == "replica")

    restored = await ground.open()
    try:
        after = await read_catalog(restored)
        assert after.revision == facts.end.revision + 1
        assert after.cluster is not None
        assert (after.cluster.generation, after.cluster.strangers) == (WALL_S, True)
        end = end_of(after.cluster, facts.cluster.generation)
        assert end is not None
        assert (end.revision, end.lineage) == (facts.end.revision, facts.end.lineage)
        # A node that has all of the old history goes on from here, and finds the hash that it expects.
        watched = restored.watch(keys.WATCH_START, keys.WATCH_END, after.revision)
        async with aclosing(watched) as batches:
            batch = await anext(batches)
        assert after.lineage == next_lineage(catalog.lineage, batch.changes)
        changed = {change.key: change.value for change in batch.changes}
        assert await values(restored) == await values(before) | changed
        assert (await restored.campaign("c1")).term > GENERATION_GAP
        await commit(restored, database(99))
    finally:
        await restored.close()


async def test_a_vault_has_no_revision_that_could_be_replayed_before_the_new_generation(
    ground: RecoveryGround, tmp_path: Path
) -> None:
    """A node one revision before the vault would be given all keys as the changes of that one revision."""
    done = await ground.recover(await make("node", tmp_path / "node"))
    restored = await ground.open()
    status = await restored.status()
    assert status.minimum == status.latest == done.restored.facts.end.revision + 1
    await restored.close()


@pytest.mark.parametrize("kind", ["backup", "coordinator", "replica"])
async def test_the_last_revision_of_other_kinds_can_be_replayed(
    kind: str, ground: RecoveryGround, tmp_path: Path
) -> None:
    done = await ground.recover(await make(kind, tmp_path / "place"))
    restored = await ground.open()
    assert (await restored.status()).minimum == done.restored.facts.end.revision
    async with aclosing(restored.watch(keys.WATCH_START, keys.WATCH_END, done.restored.facts.end.revision)) as batches:
        batch = await anext(batches)
    assert {change.key for change in batch.changes if change.value is None} == {keys.database(ObjectId(2))}
    await restored.close()


@pytest.mark.parametrize("kind", ["replica", "node"])
async def test_a_term_that_nobody_wrote_down_is_above_every_one_that_was(
    kind: str, ground: RecoveryGround, tmp_path: Path
) -> None:
    """A backup of a cluster that was restored over and over has a term far above that of its first history."""
    known = RecoveryGround(tmp_path / "known")
    await known.recover(await make("coordinator", tmp_path / "coordinator"))
    await ground.recover(await make(kind, tmp_path / "place"))
    terms = []
    for one in (known, ground):
        storage = await one.open()
        terms.append((await storage.campaign("c1")).term)
        await storage.close()
    assert terms[1] > 1_000 * terms[0]


async def test_a_meta_storage_that_was_moved_counts_as_far_as_it_goes(ground: RecoveryGround, tmp_path: Path) -> None:
    """The place that it was moved to may be lost."""
    source = await make("coordinator", tmp_path / "moved")
    storage = await SqliteMetaStorage.open(source.path / FILE_NAME, kind=MovableDatabase)
    move = MetaMoveRecord(id=EntryId("1" * 32), to="etcd://127.0.0.1:1/x", is_finished=True)

    def mark(opened: Database) -> None:
        assert isinstance(opened, MovableDatabase)
        opened.put_mark(move)

    await storage.ask(mark)
    await storage.close()
    with pytest.raises(MetaMoved):
        await SqliteMetaStorage.open(source.path / FILE_NAME)
    assert (await ground.recover(source)).taken == source
    await (await ground.open()).close()


# ------------------------------------------------------------ several


async def test_the_newest_of_all_kinds_is_taken(ground: RecoveryGround, tmp_path: Path) -> None:
    sources = [await make(kind, tmp_path / kind, more=more) for more, kind in enumerate(("backup", "coordinator"))]
    sources.append(await make("node", tmp_path / "node", more=5))
    done = await ground.recover(*sources)
    assert done.taken == sources[-1]
    revisions = [one.facts.end.revision for one in ground.examined if one.facts is not None]
    assert revisions == sorted(revisions)
    assert len(revisions) == 3


async def test_of_equal_ones_the_one_that_lacks_least_is_taken(ground: RecoveryGround, tmp_path: Path) -> None:
    sources = [await make(kind, tmp_path / kind, more=1) for kind in ("node", "coordinator")]
    assert (await ground.recover(*sources)).taken == sources[1]


async def test_two_that_differ_at_the_newest_revision_are_refused(ground: RecoveryGround, tmp_path: Path) -> None:
    one, other = await state(), await state()
    await commit(one, database(7))
    await commit(other, database(8))
    for name, storage in (("one", one), ("other", other)):
        await write_vault(storage, tmp_path / name)
    sources = [RecoverySource(tmp_path / name, SourceKind.NODE) for name in ("one", "other")]
    assert (await ground.refused(*sources)).code == ErrorCode.DIVERGED
    assert [one.problem for one in ground.examined] == [None, None]
    assert (await ground.recover(sources[0])).taken == sources[0]


async def test_a_directory_of_a_whole_cluster_names_all_that_is_in_it(ground: RecoveryGround, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster"
    (cluster / "meta-1" / "data").mkdir(parents=True)
    (cluster / "cluster.json").write_text("{}")
    made = [
        await make("coordinator", cluster / "coordinator"),
        await make("node", cluster / "node-1", more=1),
        await make("node", cluster / "node-2"),
    ]
    assert sources_at(cluster) == made
    assert (await ground.recover(*sources_at(cluster))).taken == made[1]


@pytest.mark.parametrize("name", ["missing", "empty", "other"])
def test_a_path_without_anything_to_recover_from_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "segments").mkdir()
    with pytest.raises(NotFound, match=name):
        sources_at(tmp_path / name)


# ------------------------------------------------------------ damage


def largest(place: Path) -> Path:
    return place if place.is_file() else max(place.iterdir(), key=lambda one: one.stat().st_size)


def cut(place: Path) -> None:
    file = largest(place)
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3])


def flip(place: Path) -> None:
    """One bit in a name that a record holds."""
    blob = bytearray(largest(place).read_bytes())
    blob[blob.rindex(b"node-1")] ^= 1
    largest(place).write_bytes(blob)


def empty(place: Path) -> None:
    largest(place).write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, flip, empty])
@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_damaged_is_passed_over_and_said(
    kind: str, damage: Callable[[Path], None], ground: RecoveryGround, tmp_path: Path
) -> None:
    """The state is read from revision to revision, so a bit of a coordinator's own file shows in the history."""
    newer = await make(kind, tmp_path / "newer", more=5)
    older = await make("backup", tmp_path / "older")
    damage(newer.path)
    alone = await ground.refused(newer)
    assert alone.code == ErrorCode.NOTHING_WHOLE
    (found,) = ground.examined
    assert found.problem
    assert found.facts is None
    assert (await ground.recover(newer, older)).taken == older


@pytest.mark.parametrize("kind", ["coordinator", "replica", "node"])
async def test_a_disk_without_room_for_a_copy_is_never_taken_for_damage(kind: str, tmp_path: Path) -> None:
    source = await make(kind, tmp_path / "place", more=20)
    codes, before = set[str | None](), resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in range(1_000, 100_000, 3_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            assert (await examine(source, tmp_path / f"{size}.backup")).problem is None
            codes.add(None)
        except LeaseholdError as error:
            codes.add(error.code)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert codes == {None, ErrorCode.DISK}


async def test_a_vault_without_its_log_goes_less_far_and_is_whole(ground: RecoveryGround, tmp_path: Path) -> None:
    """The log lies beside the file as long as a node runs, and after it was killed."""
    storage, directory = await state(), tmp_path / "node"
    await write_vault(storage, directory)
    vault = await SqliteVault.open(directory)
    await commit(storage, database(7))
    latest = (await storage.status()).latest
    await follow(storage, vault, latest)
    with_log, without = tmp_path / "with", tmp_path / "without"
    for one in (with_log, without):
        shutil.copytree(directory, one)
    (without / "vault.db-wal").unlink()
    await vault.close()
    done = await ground.recover(*(RecoverySource(one, SourceKind.NODE) for one in (without, with_log)))
    assert done.taken.path == with_log
    assert [one.facts.end.revision for one in ground.examined if one.facts] == [latest - 1, latest]


async def test_a_place_that_holds_no_cluster_yet_is_not_whole(ground: RecoveryGround, tmp_path: Path) -> None:
    (tmp_path / "coordinator").mkdir()
    await (await SqliteMetaStorage.open(tmp_path / "coordinator" / FILE_NAME)).close()
    await (await SqliteVault.open(tmp_path / "node")).close()
    sources = [source for name in ("coordinator", "node") for source in sources_at(tmp_path / name)]
    assert (await ground.refused(*sources)).code == ErrorCode.NOTHING_WHOLE
    assert all("nothing of a cluster" in str(one.problem) for one in ground.examined)


# ------------------------------------------------------------ what a person has to mend first


async def test_another_cluster_is_refused(ground: RecoveryGround, tmp_path: Path) -> None:
    source, other = await make("backup", tmp_path / "backup"), await state()
    found = await other.get(keys.CLUSTER)
    assert found is not None
    await commit(other, Change(keys.CLUSTER, found.value.replace(CLUSTER_ID.encode(), b"d" * 32)))
    await write_vault(other, tmp_path / "node")
    strange = RecoverySource(tmp_path / "node", SourceKind.NODE)
    assert (await ground.refused(source, strange)).code == ErrorCode.OTHER_CLUSTER


@pytest.mark.parametrize("kind", KINDS)
async def test_a_newer_format_is_refused_though_another_place_is_whole(
    kind: str, ground: RecoveryGround, tmp_path: Path
) -> None:
    source, older = await make(kind, tmp_path / "place"), await make("backup", tmp_path / "older")
    if kind == "backup":
        source.path.write_bytes(source.path.read_bytes().replace(b"backup 1\n", b"backup 2\n"))
    else:
        version = (VAULT_FORMAT_VERSION if kind == "node" else FORMAT_VERSION) + 1
        name = "vault.db" if kind == "node" else FILE_NAME
        with closing(sqlite3.connect(source.path / name)) as database_file:
            database_file.execute(f"PRAGMA user_version = {version}")
    error = await ground.refused(source, older)
    assert "newer" in error.text + error.hint


async def test_a_place_in_use_is_refused_and_free_again_afterwards(ground: RecoveryGround, tmp_path: Path) -> None:
    coordinator, node = await make("coordinator", tmp_path / "c"), await make("node", tmp_path / "n")
    running = await SqliteMetaStorage.open(coordinator.path / FILE_NAME)
    assert (await ground.refused(coordinator, node)).code == ErrorCode.LOCKED
    await running.close()
    vault = await SqliteVault.open(node.path)
    assert (await ground.refused(coordinator, node)).code == ErrorCode.LOCKED
    await vault.close()
    await ground.recover(coordinator, node)
    await (await SqliteMetaStorage.open(coordinator.path / FILE_NAME)).close()
    await (await SqliteVault.open(node.path)).close()


async def test_a_place_is_not_used_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = await make("coordinator", tmp_path / "c")
    seen: list[LeaseholdError] = []

    async def start_meanwhile(*_: object) -> None:
        with pytest.raises(BadDirectory) as raised:
            await SqliteMetaStorage.open(source.path / FILE_NAME)
        seen.append(raised.value)

    monkeypatch.setattr("leasehold.coordinator.sources.check_history", start_meanwhile)
    await examine(source, tmp_path / "file")
    assert [one.code for one in seen] == [ErrorCode.BAD_DIRECTORY]


async def test_a_target_that_is_not_empty_is_refused_before_anything_is_read(
    ground: RecoveryGround, tmp_path: Path
) -> None:
    source = await make("node", tmp_path / "node")
    await ground.recover(source)
    before = image(ground.directory)
    with pytest.raises(LeaseholdError, match="meta storage in"):
        await ground.recover(source)
    assert image(ground.directory)[FILE_NAME] == before[FILE_NAME]
    assert len(ground.examined) == 1
