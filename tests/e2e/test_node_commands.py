"""`leasehold node`: configured, waited for, and looked after while nothing is served, with real directories."""

import errno
import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leasehold.cli.output import Output
from leasehold.cli.standalone import StandaloneOptions, run_standalone
from leasehold.client.cluster import connect
from leasehold.node.directory import export as exporting
from leasehold.node.directory import standalone as node_standalone
from leasehold.node.directory.standalone import Standalone
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import command, leasehold
from tests.e2e.node_directories import everything_below, files, garble, make_tables, shown, standalone, table_ids
from tests.e2e.waiting import wait_until

pytestmark = pytest.mark.processes


# ---------------------------------------------------------------- standalone: showing and checking


@pytest.mark.parametrize("words", [{"check": True}, {"repair": True}, {"export": "", "to": Path("out.parquet")}])
def test_ctrl_c_ends_what_reads_segments_at_once(
    directory: Path, monkeypatch: pytest.MonkeyPatch, words: dict[str, Any]
) -> None:
    read: list[Path] = []

    def interrupted(path: Path, **_: object) -> None:
        read.append(path)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(node_standalone, "verify_segment", interrupted)
    monkeypatch.setattr(exporting, "verify_segment", interrupted)
    monkeypatch.chdir(directory.parent)
    both, _ = table_ids(directory)
    if "export" in words:
        words = words | {"export": files(directory, both)[0].stem}
    asked = StandaloneOptions(**{"check": False, "repair": False, "export": None, "to": None} | words)
    with pytest.raises(KeyboardInterrupt):
        run_standalone(directory, asked, Output.TABLE)
    assert len(read) == 1
    assert [path.name for path in directory.parent.iterdir()] == ["node-1"]
    assert standalone(directory, "--check").code == 0


def test_a_directory_shows_who_it_is_and_what_it_holds(directory: Path) -> None:
    found = shown(directory)
    assert (found["node"], found["name"], found["incarnation"], found["joining"]) == (1, "node-1", 1, False)
    assert len(found["cluster_id"]) == 32
    assert found["applied"] > 5
    assert found["coordinators"]
    assert [found[kind]["count"] for kind in ("missing", "awaited", "superfluous")] == [0, 0, 0]
    tables = {one["name"]: one for one in found["tables"]}
    assert {name: (one["buckets"], one["segments"]) for name, one in tables.items()} == {"d.t": (1, 2), "d.one": (1, 2)}
    people = standalone(directory)
    assert people.code == 0, people.err
    assert "node 1, node-1, of cluster" in people.out
    assert standalone(directory, "-o", "json").json() == found, "looking changes nothing"


def test_what_is_missing_and_what_is_too_much_is_named(directory: Path) -> None:
    both, _ = table_ids(directory)
    lost, kept = files(directory, both)
    strange = kept.with_name(f"{'0' * 32}-{'1' * 32}.parquet")
    lost.rename(strange)
    found = shown(directory)
    assert found["missing"] == {"count": 1, "first": [lost.stem]}
    assert found["superfluous"] == {"count": 1, "first": [strange.stem]}
    assert lost.stem in standalone(directory).out


def test_a_whole_directory_passes_its_check(directory: Path) -> None:
    found = standalone(directory, "--check", "-o", "json").json()
    assert (found["vault"], found["segments"], found["wrong"], found["findings"]) == ([], 4, 0, [])
    assert standalone(directory, "--check").code == 0


def test_a_check_names_every_segment_that_is_wrong_and_moves_none(directory: Path) -> None:
    both, one = table_ids(directory)
    damaged, lost = files(directory, both)
    unreadable, _ = files(directory, one)
    garble(damaged)
    lost.unlink()
    unreadable.unlink()
    unreadable.symlink_to(unreadable)
    ran = standalone(directory, "--check", "-o", "json")
    ran.refused(1, "CHECK_FAILED", "3 segments", "--repair")
    found = json.loads(ran.out)
    expected = {(damaged.stem, "damaged"), (lost.stem, "missing"), (unreadable.stem, "unreadable")}
    assert {(finding["segment"], finding["what"]) for finding in found["findings"]} == expected
    assert found["wrong"] == 3
    assert damaged.exists()
    for word in (damaged.stem, lost.stem, unreadable.stem):
        assert word in standalone(directory, "--check").out


def test_a_damaged_vault_fails_the_check_and_is_left_alone(directory: Path) -> None:
    vault = directory / "vault.db"
    blob = bytearray(vault.read_bytes())
    blob[4096 : 4096 + 512] = b"\xff" * 512
    vault.write_bytes(blob)
    standalone(directory).refused(3, "CORRUPT")
    standalone(directory, "--check", "-o", "json").refused(1, "CORRUPT", "leasehold node reset")
    standalone(directory, "--repair").refused(3, "CORRUPT")
    checked = leasehold("vault", "check", "-o", "json", directory=directory)
    checked.refused(1, "CORRUPT", "leasehold node reset")
    assert json.loads(checked.out)["findings"]
    assert vault.read_bytes() == blob


def test_a_vault_is_shown_and_checked_without_a_change(directory: Path) -> None:
    def stamps() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}

    before = stamps()
    found = leasehold("vault", "show", "-o", "json", directory=directory).json()
    assert (found["node"], found["state"], found["incarnation"]) == (1, "ALLOCATED", 1)
    assert found["keys"] == sum(one["keys"] for one in found["families"])
    assert "c/segment/" in {one["prefix"] for one in found["families"]}
    assert len(found["token_sha256"]) == 8, "enough to tell two nodes apart, too little to be one"
    shown = leasehold("vault", "show", directory=directory)
    assert shown.code == 0, shown.err
    assert found["cluster_id"] in shown.out
    assert found["history_hash"] in shown.out
    checked = leasehold("vault", "check", "-o", "json", directory=directory).json()
    assert checked["findings"] == []
    assert checked["revision"] > 0
    assert "whole" in leasehold("vault", "check", directory=directory).out
    assert stamps() == before


def test_a_vault_that_is_in_use_or_is_none_is_refused(single: RunningCluster, tmp_path: Path) -> None:
    for verb in ("show", "check"):
        leasehold("vault", verb, directory=single.directory / "node-1").refused(3, "LOCKED", "leasehold status")
        leasehold("vault", verb, directory=tmp_path / "nowhere").refused(3, "NO_VAULT")


def test_a_directory_in_use_and_one_without_a_node_are_refused(single: RunningCluster, tmp_path: Path) -> None:
    for words in ([], ["--check"], ["--repair"]):
        standalone(single.directory / "node-1", *words).refused(3, "LOCKED", "node-1")
    (tmp_path / "thesis.tex").write_text("precious")
    standalone(tmp_path).refused(3, "NO_NODE")
    standalone(tmp_path / "nowhere").refused(3, "NO_NODE")
    assert [path.name for path in tmp_path.iterdir() if path != single.directory] == ["thesis.tex"]


def test_what_goes_with_standalone_alone(directory: Path, tmp_path: Path) -> None:
    for words in (["--check"], ["--repair"], ["--export", "x", "--to", str(tmp_path / "x")], ["--to", "x"]):
        leasehold("node", "start", *words, directory=directory).refused(2, "--standalone")
    standalone(directory, "--check", "--repair").refused(2, "only one of --check, --repair and --export is allowed")
    standalone(directory, "--export", "x").refused(2, "--to")
    standalone(directory, "--to", "x").refused(2, "--export")


# ---------------------------------------------------------------- standalone: repair


def test_a_repair_puts_aside_only_what_another_node_holds(directory: Path) -> None:
    assert standalone(directory, "--repair", "-o", "json").json() == {"moved": 0, "to": None, "left": 0, "segments": []}
    both, one = table_ids(directory)
    damaged, sound = files(directory, both)
    alone = files(directory, one)[0]
    garble(damaged)
    garble(alone)
    ran = standalone(directory, "--repair", "-o", "json")
    ran.refused(1, "CHECK_FAILED", "1 damaged")
    told = json.loads(ran.out)
    assert (told["moved"], told["to"], told["left"]) == (1, str(directory / "repaired-1"), 1)
    assert "delete that folder when the node serves again" in ran.err
    found = {one["finding"]["segment"]: (one["moved"], one["why"]) for one in told["segments"]}
    assert found[damaged.stem] == (True, "")
    moved, why = found[alone.stem]
    assert not moved
    assert "no other node holds it" in why
    assert (damaged.exists(), sound.exists(), alone.exists()) == (False, True, True)
    assert [path.name for path in (directory / "repaired-1").iterdir()] == [f"{both}-0-{damaged.name}"]
    assert not list((directory / "trash").iterdir()), "nothing that a node would delete"
    assert shown(directory)["missing"]["first"] == [damaged.stem]


def test_a_repair_leaves_what_it_can_not_read(directory: Path) -> None:
    both, _ = table_ids(directory)
    unreadable, damaged = files(directory, both)
    whole = unreadable.read_bytes()
    aside = unreadable.rename(directory / "aside")
    unreadable.symlink_to(unreadable)
    garble(damaged)
    ran = standalone(directory, "--repair", "-o", "json")
    ran.refused(1, "CHECK_FAILED", "1 can't be read", unreadable.name, "permissions", "disk")
    told = {one["finding"]["segment"]: one for one in json.loads(ran.out)["segments"]}
    assert told[unreadable.stem]["finding"]["what"] == "unreadable"
    assert (told[unreadable.stem]["moved"], told[damaged.stem]["moved"]) == (False, True)
    assert unreadable.is_symlink()
    unreadable.unlink()
    aside.rename(unreadable)
    assert standalone(directory, "--repair").code == 0
    assert unreadable.read_bytes() == whole


async def test_what_the_disk_does_not_give_is_not_taken_for_damage(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(hashlib, "file_digest", fails)
    standing = await Standalone.open(directory)
    repaired = standing.repair(lambda _: None)
    await standing.close()
    assert [(one.finding.what, one.moved) for one in repaired.segments] == [("unreadable", False)] * 4
    assert repaired.folder is None


def test_each_repair_has_a_folder_of_its_own(directory: Path) -> None:
    both, _ = table_ids(directory)
    for number, damaged in enumerate(files(directory, both), start=1):
        garble(damaged)
        assert standalone(directory, "--repair", "-o", "json").json()["to"] == str(directory / f"repaired-{number}")
    assert len(list(directory.glob("repaired-*/*.parquet"))) == 2


def test_a_repaired_node_fetches_what_was_put_aside(fresh: RunningCluster) -> None:
    with fresh.connect() as cluster:
        make_tables(cluster)
    fresh.stop()
    places = sorted(fresh.directory.glob("node-*/segments/*/*/*.parquet"))
    twice = [path for path in places if [one.name for one in places].count(path.name) == 2]
    damaged = twice[0]
    whole = damaged.read_bytes()
    garble(damaged)
    node = fresh.directory / damaged.relative_to(fresh.directory).parts[0]
    assert standalone(node, "--repair").code == 0
    assert not damaged.exists()
    assert leasehold("up", "--detach", directory=fresh.directory).code == 0
    wait_until(lambda: damaged.exists() and damaged.read_bytes() == whole)
    assert len(list(node.glob("repaired-1/*.parquet"))) == 1, "nobody but a person deletes it"


# ---------------------------------------------------------------- waiting


def test_waiting_for_a_node_says_what_it_is_and_what_to_do(fresh: RunningCluster) -> None:
    there = fresh.directory
    assert leasehold("node", "wait", "node-2", "-o", "json", directory=there).json()["state"] == "ACTIVE"
    fresh.kill("node-2")
    late = leasehold("node", "wait", "node-2", "--timeout", "500ms", directory=there)
    late.refused(5, "NOT_SERVING", "node-2", "DOWN", "leasehold chaos start node-2")
    assert "node-2: DOWN" in late.err, "its lease may run on, and does not pass for it"
    assert leasehold("chaos", "start", "node-2", directory=there).code == 0
    served = leasehold("node", "wait", "2", directory=there)
    assert served.code == 0, served.err
    assert fresh.local.node("node-2").running() is not None
    address = (there / "node-2" / "address").read_text()
    assert served.out.strip() == f"node-2 serves at {address}"
    unknown = leasehold("node", "wait", "node-9", "--timeout", "300ms", directory=there)
    unknown.refused(5, "NOT_SERVING", "node-9", "not registered", "leasehold node start")
    leasehold("node", "wait", "node-1", "--timeout", "soon", directory=there).refused(2, "--timeout")
    fresh.stop()
    leasehold("node", "wait", "node-1", "--timeout", "300ms", directory=there).refused(5, "UNREACHABLE")


# ---------------------------------------------------------------- configuration


@contextmanager
def serving(fresh: RunningCluster, *words: str, **environment: str) -> Iterator[None]:
    """A node `again` by these words, until it serves; told to stop at the end."""
    process = subprocess.Popen(
        command("node", "start", "--listen", "127.0.0.1:0", *words),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"LEASEHOLD_CLUSTER_KEY": str(fresh.directory / "cluster.key")} | environment,
    )
    try:
        waited = leasehold("node", "wait", "again", directory=fresh.directory)
        assert waited.code == 0, waited.err
        yield
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0


def test_a_node_by_its_file_and_then_by_what_it_remembers(fresh: RunningCluster, tmp_path: Path) -> None:
    coordinator = fresh.local.start_coordinator(None)
    file = tmp_path / "node.toml"
    file.write_text("dir = 'here'\nname = 'again'\nadvertise = 'localhost:0'\ncoordinators = ['127.0.0.1:1']\n")

    def advertised() -> str:
        with connect(fresh.directory) as cluster:
            return next(node.address for node in cluster.status().nodes if node.name == "again")

    with serving(fresh, "--config", str(file), LEASEHOLD_COORDINATORS=f"127.0.0.1:2 {coordinator}"):
        port = (tmp_path / "here" / "address").read_text().rpartition(":")[2]
        assert advertised() == f"localhost:{port}"
    file.write_text("dir = 'here'\nadvertise = 'nowhere.example:1'\n")
    leasehold("node", "start", "--config", str(file), LEASEHOLD_LISTEN="x").refused(2, "LEASEHOLD_LISTEN")
    told = {"LEASEHOLD_CONFIG": str(file), "LEASEHOLD_NAME": "else", "LEASEHOLD_ADVERTISE": "localhost:0"}
    with serving(fresh, "--name", "again", **told):
        port = (tmp_path / "here" / "address").read_text().rpartition(":")[2]
        assert advertised() == f"localhost:{port}", "the variable wins over the file, and the flag over the variable"


def test_a_directory_that_lost_its_vault_is_not_started_as_a_new_node(directory: Path) -> None:
    for path in directory.glob("vault.db*"):
        path.unlink()
    before = everything_below(directory)
    started = leasehold("node", "start", "--coordinator", "127.0.0.1:1", directory=directory)
    started.refused(3, "NO_VAULT", "restore the vault", "leasehold node adopt", "leasehold node reset")
    for words in ([], ["--check"], ["--repair"]):
        standalone(directory, *words).refused(3, "NO_VAULT", "restore the vault")
    assert everything_below(directory) == before
    assert leasehold("node", "reset", "--yes", directory=directory).code == 0


@pytest.mark.parametrize("folder", ["staging", "trash", "segments"])
def test_the_folders_of_somebody_else_are_neither_emptied_nor_reset(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "thesis.tex").write_text("precious")
    started = leasehold("node", "start", "--coordinator", "127.0.0.1:1", directory=tmp_path)
    started.refused(3, "NO_VAULT", folder, "another --dir")
    leasehold("node", "reset", "--yes", directory=tmp_path).refused(3, "NO_NODE")
    assert everything_below(tmp_path) == {str(tmp_path / folder / "thesis.tex"): b"precious"}


def test_an_empty_name_is_not_the_directory_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["node", "start"], ["node", "reset", "--yes"], ["node", "adopt"], ["coordinator"], ["up"], ["down"]):
        leasehold(*words, "--dir", "").refused(2, "empty", "--dir")
    for words, variable in {"start": "LEASEHOLD_NODE_DIR", "reset": "LEASEHOLD_NODE_DIR"}.items():
        assert leasehold("node", words, **{variable: ""}).code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_looked_after_whatever_it_is_called(directory: Path) -> None:
    strange = directory.rename(directory.parent / os.fsdecode(b"old disk \xff"))
    assert shown(strange)["name"] == "node-1"
    assert standalone(strange, "--check").code == 0
    leasehold("node", "start", "--coordinator", "127.0.0.1:1", directory=strange).refused(2, "--name")
    told = leasehold("node", "reset", "--yes", "-o", "json", directory=strange)
    expected = str(strange / "before-reset-1").replace("\udcff", "\N{REPLACEMENT CHARACTER}")
    assert told.json()["to"] == expected


def test_a_node_that_knows_no_coordinator_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    leasehold("node", "start", directory=tmp_path / "new").refused(2, "NO_COORDINATOR", "--coordinator")
    assert not (tmp_path / "new").exists()


def test_a_file_that_is_no_configuration_ends_a_process_before_anything_is_made(tmp_path: Path) -> None:
    file = tmp_path / "process.toml"
    for text, words in {
        "dri = 'x'": ["did you mean dir?"],
        "lease_duration = '5s'": ["ALTER CLUSTER SET lease_duration"],
        "listen = 5": ["listen", "not an address"],
        "[": ["not valid TOML"],
    }.items():
        file.write_text(text)
        for process in (["coordinator"], ["node", "start"]):
            ran = leasehold(*process, "--config", str(file), directory=tmp_path / "new")
            ran.refused(2, "BAD_CONFIG", "process.toml", *words)
    assert [path.name for path in tmp_path.iterdir()] == ["process.toml"]


def test_variables_of_one_process_do_not_reach_those_that_up_starts(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("listen = 'nonsense'\n")
    told = {"LEASEHOLD_CONFIG": str(tmp_path / "x.toml"), "LEASEHOLD_ADVERTISE": "nowhere.example:1"}
    there = tmp_path / "cluster"
    try:
        up = leasehold("up", "--nodes", "1", "--detach", "-o", "json", directory=there, **told)
        assert up.json()["nodes"][0]["address"].startswith("127.0.0.1:")
    finally:
        leasehold("down", directory=there)
