"""How tests find an etcd."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[4] / "tools/ensure-etcd"


def run(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", TOOL], capture_output=True, text=True, env=environment, check=False)


def test_the_variable_comes_first(tmp_path: Path) -> None:
    etcd = tmp_path / "etcd"
    etcd.write_text("#!/bin/sh\n")
    etcd.chmod(0o755)
    found = run(LEASEHOLD_ETCD=sys.executable, PATH=f"{tmp_path}:/usr/bin:/bin")
    assert (found.returncode, found.stdout) == (0, f"{sys.executable}\n")
    found = run(PATH=f"{tmp_path}:/usr/bin:/bin")
    assert (found.returncode, found.stdout) == (0, f"{etcd}\n")


@pytest.mark.parametrize("path", ["/nonexistent/etcd", "/tmp"])
def test_a_variable_that_leads_nowhere_is_an_error(path: str) -> None:
    found = run(LEASEHOLD_ETCD=path, PATH="/usr/bin:/bin")
    assert (found.returncode, found.stdout) == (2, "")
    assert f"LEASEHOLD_ETCD is {path}, which is not a program" in found.stderr
