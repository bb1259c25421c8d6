"""Each part of the bench runs from end to end at its smallest size, and a thread of it that fails ends it."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from bench import kills
from bench.__main__ import PARTS, main
from bench.figures import Figure, Table
from bench.results import BEGIN, END, Result, commit, kept, rendered, write_document
from bench.threads import ThreadFailed, Threads

from tests.few import few

ROOT = Path(__file__).parents[2]
SPARK = ("spark", "reads", "writes", "commits", "peers", "fences")
"""Tested in tests/e2e/spark."""
LARGE = ("attacks", "ddl", "recovery", "repairs", "kills", "outages", "coordinators", "log")
"""Several clusters each, which tests of their own break and mend in `make test`."""
SMALL = tuple(part for part in PARTS if part not in (*SPARK, *LARGE))


@pytest.mark.processes
@pytest.mark.parametrize("part", few(len(SMALL), [*SMALL, *LARGE]))
def test_a_part_runs_at_its_smallest_size(part: str, tmp_path: Path) -> None:
    main([part, "--smallest", "--results", str(tmp_path)])
    result = kept(part, tmp_path)
    assert result.commit.removesuffix("-dirty") == commit().removesuffix("-dirty")
    assert all(table.figures for table in result.tables)


def test_a_thread_that_fails_ends_what_its_owner_waits_for() -> None:
    def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ThreadFailed, match="broken"), Threads() as threads:
        threads.start(threads.over.wait)
        threads.start(fail)
        threads.join_all()  # the first one would wait for ever


def test_a_run_with_a_broken_thread_ends_with_exit_code_1() -> None:
    program = """
import bench.__main__, bench.ddl
bench.ddl.Coordinator = lambda **_: 1 / 0  # it is made in a thread
bench.__main__.PARTS["ddl"] = lambda _: [bench.ddl.inside_the_commit(1, 1)]
bench.__main__.main(["ddl", "--smallest"])
"""
    words = [sys.executable, "-c", program]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 1, ended.stderr
    assert "ZeroDivisionError" in ended.stderr


def test_the_commit_says_whether_files_were_changed(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True)

    assert commit(tmp_path) == "unknown"
    git("init")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "one")
    clean = commit(tmp_path)
    assert len(clean) == 12
    (tmp_path / "file").write_text("2")
    assert commit(tmp_path) == clean + "-dirty"


def test_the_section_of_a_part_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    figure = Figure(what="a | b", value="1 ms", aim="under 2 ms", holds=True)
    guard, ddl = (
        Result(part=part, commit="abc", machine="a machine", tables=[Table(title="Made", figures=[figure])])
        for part in ("guard", "ddl")
    )
    document = tmp_path / "measuring.md"
    document.write_text(f"before\n{BEGIN}\n{END}\nafter\n")
    for result in (ddl, guard, ddl):
        write_document(result, ["guard", "ddl", "vault"], document)
    assert document.read_text() == f"before\n{BEGIN}\n{rendered(guard)}{rendered(ddl)}{END}\nafter\n"
    assert "| a \\| b | 1 ms |  |  | under 2 ms | yes |" in document.read_text()
    assert "Commit `abc`; a machine." in document.read_text()
    write_document(msgspec.structs.replace(guard, commit="def"), ["guard", "ddl"], document)
    assert document.read_text().count("Commit `abc`") == document.read_text().count("Commit `def`") == 1


def test_what_follows_a_fault_is_held_against_the_aim_of_that_fault() -> None:
    def ask(fault: str, question: str) -> kills.Asked:
        return kills.Asked(took_ms=70.0, since_fault_ms=71.0, is_fenced=fault == kills.PAUSED)

    found = {one.what: one for one in kills.figures(ask, kills.Size(nothing=1, alone=1, out=2))}
    assert found[f"first scan after {kills.NOTHING}"].holds is None
    alone = found[f"first scan after {kills.ALONE}"]
    assert (alone.holds, alone.ratio, alone.aim) == (False, "1.40", "p99 at most 50 ms")
    paused = found[f"first DROP TABLE after {kills.PAUSED}"]
    assert (paused.holds, paused.aim, paused.peer) == (True, "worst at most 4000 ms", "2 waited for the lease")
    writes = found[f"time without accepted writes after {kills.ALONE}"]
    assert (writes.holds, writes.value, writes.aim) == (True, "worst 71 ms of 1", "worst at most 100 ms")


def test_a_network_that_cannot_be_cut_is_said_in_its_rows() -> None:
    def ask(fault: str, question: str) -> kills.Asked:
        assert fault != kills.CUT
        return kills.Asked(took_ms=1.0, since_fault_ms=1.0, is_fenced=False)

    found = {one.what: one.value for one in kills.figures(ask, kills.SMALLEST, "it needs root")}
    without = {what for what, value in found.items() if value == "it needs root"}
    assert without == {f"first append after {kills.CUT}", f"time without accepted writes after {kills.CUT}"}


def test_faults_come_in_turn() -> None:
    came: list[str] = []

    def ask(fault: str, question: str) -> kills.Asked:
        came.append(fault)
        return kills.Asked(took_ms=1.0, since_fault_ms=1.0, is_fenced=False)

    size = kills.Size(nothing=2, alone=2, out=1, questions=(kills.APPEND,))
    assert len(list(kills.figures(ask, size))) == 3 + 4 + 4
    nothing, out = [kills.NOTHING] * 3, [kills.TOGETHER, kills.PAUSED, kills.CUT]
    assert came == [*nothing, kills.ALONE, *out, *nothing, kills.ALONE]
