"""What `make release` says where one of its tools fails. The tools are replaced: they need the network."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import ROOT

TOOLS = ("pip-compile", "cyclonedx-py", "pip-audit")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a wheel in `dist`, and with tools in `bin` that write down their arguments and succeed."""
    for name in ("bin", "dist"):
        (tmp_path / name).mkdir()
    (tmp_path / "dist/leasehold-1-py3-none-any.whl").write_bytes(b"a wheel")
    (tmp_path / "bin/python").symlink_to(sys.executable)
    for name in TOOLS:
        becomes(tmp_path, name, "")
    return tmp_path


def becomes(folder: Path, name: str, script: str) -> None:
    path = folder / "bin" / name
    path.write_text(f'#!/bin/sh\necho "{name} $*" >>called\n{script}\n')
    path.chmod(0o700)


def released(folder: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        ["sh", str(ROOT / "tools/release"), "bin", "dist"], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def called(folder: Path) -> list[str]:
    return [line.split()[0] for line in (folder / "called").read_text().splitlines()]


def test_all_tools_run_and_the_command_has_the_hash_of_the_wheel(folder: Path) -> None:
    code, out, _ = released(folder)
    assert code == 0
    assert called(folder) == list(TOOLS)
    wheel = folder / "dist/leasehold-1-py3-none-any.whl"
    assert f"'leasehold @ file://{wheel}#sha256={hashlib.sha256(b'a wheel').hexdigest()}'" in out
    words = (folder / "called").read_text()
    assert "--generate-hashes" in words
    assert str(folder / "dist/leasehold-1.cdx.json") in words
    assert "--strict" in words, "a package that could not be audited counts as one with nothing against it"


@pytest.mark.parametrize(
    ("tool", "script", "why"),
    [
        ("pip-compile", "exit 1", "resolving packages and their hashes failed. It needs the package index"),
        ("cyclonedx-py", "exit 2", "writing the bill of materials failed. It needs no network."),
        ("pip-audit", "exit 1", "auditing the packages failed. It needs pypi.org itself"),
        (
            "pip-audit",
            "echo Found 2 known vulnerabilities in 1 package; exit 1",
            "auditing the packages failed. Upgrade or replace the packages above",
        ),
    ],
)
def test_a_tool_that_fails_ends_it_and_is_told(tool: str, script: str, why: str, folder: Path) -> None:
    becomes(folder, tool, f"echo some words\n{script}")
    code, out, err = released(folder)
    assert (code, out) == (1, "")
    assert "some words" in err
    assert f"release: {why}" in err
    assert called(folder)[-1] == tool


def test_without_a_wheel_nothing_runs(folder: Path) -> None:
    (folder / "dist/leasehold-1-py3-none-any.whl").unlink()
    code, _, err = released(folder)
    assert (code, (folder / "called").exists()) == (1, False)
    assert ".whl" in err
