"""Directories, files and ports that are not as they should be: a clear error, an exit code, and nothing lost."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from leasehold.errors import Refused
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import command, leasehold

pytestmark = pytest.mark.processes


def test_rows_that_do_not_fit(single: RunningCluster) -> None:
    with single.connect() as cluster:
        cluster.sql("CREATE DATABASE d")
        cluster.sql("CREATE TABLE d.t (a TINYINT NOT NULL, b STRING)")
        table = cluster.table("d.t")
        for rows, word in [
            (pa.table({"a": [1000]}), "a"),
            (pa.table({"b": ["x"]}), "a"),
            (pa.table({"a": [1], "c": [2]}), "c"),
            (pa.table({"a": pa.array([None], pa.int8())}), "a"),
        ]:
            with pytest.raises(Refused, match=word) as refused:
                table.append(rows)
            assert refused.value.code == "ROWS_DO_NOT_FIT"
        assert table.scan().read_all().num_rows == 0
        assert table.append(pa.table({"A": pa.array([1], pa.int64())})) == 1


def test_a_garbled_vault_stops_the_node_and_is_left_alone(single: RunningCluster) -> None:
    single.kill("node-1")
    vault = single.directory / "node-1" / "vault.db"
    for leftover in vault.parent.glob("vault.db-*"):
        leftover.unlink()
    garbled = bytearray(vault.read_bytes())
    garbled[100:2000] = b"\xa5" * 1900
    vault.write_bytes(garbled)
    leasehold("chaos", "start", "node-1", directory=single.directory).refused(3, "DID_NOT_START", "error [CORRUPT]")
    assert "CORRUPT" in leasehold("logs", "node-1", directory=single.directory).out
    assert vault.read_bytes() == bytes(garbled)
    with single.connect() as cluster:
        assert cluster.sql("CREATE DATABASE still_alive")


def test_a_node_that_ends_after_it_listened_did_not_start(fresh: RunningCluster) -> None:
    """Its directory is gone: an empty one is not that node, and the coordinator refuses its name."""
    fresh.kill("node-2")
    kept = fresh.directory.parent / "kept"
    (fresh.directory / "node-2").rename(kept)
    leasehold("chaos", "start", "node-2", directory=fresh.directory).refused(3, "DID_NOT_START", "NAME_TAKEN")
    leasehold("up", "--detach", directory=fresh.directory).refused(3, "DID_NOT_START", "NAME_TAKEN")
    shutil.rmtree(fresh.directory / "node-2")
    kept.rename(fresh.directory / "node-2")
    started = leasehold("chaos", "start", "node-2", directory=fresh.directory)
    assert started.code == 0, started.err
    assert "leasehold status" in started.err
    fresh.wait_until_active()


def test_bytes_that_are_no_text_are_refused(single: RunningCluster) -> None:
    there = single.directory
    for arguments in (("sql", b"CREATE DATABASE \xff"), ("compact", b"d.\xff")):
        leasehold(*map(os.fsdecode, arguments), directory=there).refused(3, "BAD_TEXT")
    for how in ("strict", "surrogateescape"):
        told = os.environ | {"PYTHONIOENCODING": f"utf-8:{how}"}
        sql = command("sql", "-", directory=there)
        piped = subprocess.run(sql, input=b"SHOW \xff", capture_output=True, check=False, env=told)
        assert (piped.returncode, piped.stderr.split()[1]) == (3, b"[BAD_TEXT]:")


def test_a_directory_that_can_not_be(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("precious")
    leasehold("coordinator", directory=file).refused(3, "BAD_DIRECTORY", "file")
    leasehold("node", "start", "--coordinator", "127.0.0.1:1", directory=Path("/proc/x")).refused(
        3, "BAD_DIRECTORY", "/proc/x"
    )
    leasehold("up", "--detach", directory=file / "below").refused(3, "BAD_DIRECTORY", "file")
    leasehold("logs", "node-1", directory=file).refused(3, "BAD_DIRECTORY", "file")
    assert file.read_text() == "precious"


def test_what_nothing_foresaw_of_the_disk_is_one_line(tmp_path: Path) -> None:
    """Here the log is a directory: whatever it is, a person sees no traceback."""
    known = {"format": 1, "cluster_id": "c" * 32, "coordinator": "127.0.0.1:1", "nodes": ["node-1"]}
    (tmp_path / "cluster.json").write_text(json.dumps(known))
    (tmp_path / "node-1" / "log").mkdir(parents=True)
    leasehold("logs", "node-1", directory=tmp_path).refused(1, "OS_ERROR", "node-1/log")


def test_the_demo_empties_no_directory_but_its_own(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    demo = Path(__file__).parents[2] / "examples" / "nyc" / "demo.py"
    ran = subprocess.run(
        [sys.executable, str(demo), "--dir", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr
    assert str(tmp_path) in ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_newer_directory_is_refused(single: RunningCluster) -> None:
    single.stop()
    file = single.directory / "cluster.json"
    known = json.loads(file.read_text())
    try:
        file.write_text(json.dumps(known | {"format": 99}))
        leasehold("up", "--detach", directory=single.directory).refused(3, "NEWER_VERSION", "99")
        file.write_text("{")
        leasehold("status", directory=single.directory).refused(3, "CORRUPT")
    finally:
        file.write_text(json.dumps(known))


def test_a_directory_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    leasehold("up", "--detach", directory=tmp_path).refused(3, "thesis.tex")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["thesis.tex"]


def test_a_directory_that_others_may_write_is_refused(tmp_path: Path) -> None:
    open_one = tmp_path / "open one"
    open_one.mkdir()
    open_one.chmod(0o777)
    refused = leasehold("up", "--detach", directory=open_one)
    refused.refused(3, "WRITABLE_BY_OTHERS", "0777", f"chmod go-w '{open_one}'")
    assert list(open_one.iterdir()) == [], "nothing was made in it"


def test_a_directory_of_another_kind_of_process_is_refused(single: RunningCluster) -> None:
    """It would write its address over that of the other."""
    coordinator = single.directory / "coordinator"
    before = (coordinator / "address").read_text(), sorted(path.name for path in single.directory.rglob("*"))
    for directory, whose in ((coordinator, "of a coordinator"), (single.directory, "of a whole cluster")):
        started = leasehold("node", "start", "--name", "stray", "--coordinator", before[0].strip(), directory=directory)
        started.refused(3, "BAD_DIRECTORY", whose, "another --dir")
    leasehold("coordinator", directory=single.directory / "node-1").refused(3, "BAD_DIRECTORY", "of a node")
    after = (coordinator / "address").read_text(), sorted(path.name for path in single.directory.rglob("*"))
    assert after == before


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for process in (["coordinator"], ["node", "start", "--coordinator", "127.0.0.1:1"]):
            ran = leasehold(*process, "--listen", address, directory=tmp_path / process[0])
            ran.refused(2, "PORT_IN_USE", address)


def test_servers_refuse_to_listen_beyond_loopback(tmp_path: Path) -> None:
    for process in (["coordinator"], ["node", "start", "--coordinator", "127.0.0.1:1"]):
        ran = leasehold(*process, "--listen", "0.0.0.0:0", directory=tmp_path / process[0])
        ran.refused(2, "TLS")
