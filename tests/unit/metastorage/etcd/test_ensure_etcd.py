"""How tests find an etcd."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[4] / "tools/ensure-etcd"


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", TOOL, *words], capture_output=True, text=True, env=environment, check=False)


def test_the_variable_comes_first(tmp_path: Path) -> None:
    etcd = tmp_path / "etcd"
    etcd.write_text("#!/bin/sh\n")
    etcd.chmod(0o755)
    found = run(LEASEHOLD_ETCD=sys.executable, PATH=f"{tmp_path}:/usr/bin:/bin")
    assert (found.returncode, found.stdout) == (0, f"{sys.executable}\n")
    found = run(PATH=f"{tmp_path}:/usr/bin:/bin")
    assert (found.returncode, found.stdout) == (0, f"{etcd}\n")


def test_the_tool_of_an_etcd_is_looked_for_beside_it(tmp_path: Path) -> None:
    for folder in ("given", "path"):
        tool = tmp_path / folder / "etcdctl"
        tool.parent.mkdir()
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
    path = f"{tmp_path / 'path'}:/usr/bin:/bin"
    found = run("etcdctl", LEASEHOLD_ETCD=str(tmp_path / "given" / "etcd"), PATH=path)
    assert (found.returncode, found.stdout) == (0, f"{tmp_path / 'given' / 'etcdctl'}\n")
    for elsewhere in ({}, {"LEASEHOLD_ETCD": sys.executable}):
        found = run("etcdctl", PATH=path, **elsewhere)
        assert (found.returncode, found.stdout) == (0, f"{tmp_path / 'path' / 'etcdctl'}\n")
    assert run("etcdutl", PATH=path).returncode == 2


@pytest.mark.parametrize("path", ["/nonexistent/etcd", "/tmp"])
def test_a_variable_that_leads_nowhere_is_an_error(path: str) -> None:
    found = run(LEASEHOLD_ETCD=path, PATH="/usr/bin:/bin")
    assert (found.returncode, found.stdout) == (2, "")
    assert f"LEASEHOLD_ETCD is {path}, which is not a program" in found.stderr
