"""The units that `leasehold service print` writes."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from leasehold.cli import supervised
from leasehold.cli.config import ProcessRole
from leasehold.cli.service import escaped, program, unit_of
from leasehold.errors import BadSettings

ROLES = get_args(ProcessRole)
NAMES = {"node": "leasehold-node@.service", "coordinator": "leasehold-coordinator.service"}


def settings(unit: str) -> dict[str, str]:
    lines = [line for line in unit.splitlines() if "=" in line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("role", ROLES)
def test_systemd_finds_nothing_wrong(role: ProcessRole, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NO SYSTEMD: the units are not verified without systemd-analyze")
    (tmp_path / NAMES[role]).write_text(unit_of(role, None, program()))
    verified = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / NAMES[role])], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


@pytest.mark.parametrize("role", ROLES)
def test_a_unit_says_what_keeps_its_process_in_order(role: ProcessRole) -> None:
    found = settings(unit_of(role, None, ["/opt/leasehold"]))
    wanted = {
        "Type": "notify",
        "NotifyAccess": "all",
        "WatchdogSec": "10",
        "Restart": "on-failure",
        "RestartPreventExitStatus": "2 3",
        "User": "leasehold",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "LimitNOFILE": "65536",
        "LoadCredential": "cluster.key:/etc/leasehold/cluster.key",
    }
    assert wanted.items() <= found.items()
    assert found["MemoryMax"]
    assert found["StateDirectory"].startswith("leasehold/")


@pytest.mark.parametrize("role", ROLES)
def test_only_systemd_starts_the_process_again(role: ProcessRole) -> None:
    """The supervisor would do so too, and the watchdog would end it meanwhile."""
    words = shlex.split(settings(unit_of(role, None, ["/opt/leasehold"]))["ExecStart"])[1:]
    assert supervised._restart(words) == "never"


def test_one_template_is_for_all_nodes_of_a_machine() -> None:
    found = settings(unit_of("node", None, ["/opt/leasehold"]))
    assert "--config /etc/leasehold/%i.toml " in found["ExecStart"]
    assert found["StateDirectory"] == "leasehold/nodes/%i"
    assert "%i" not in unit_of("coordinator", None, ["/opt/leasehold"])


def test_a_path_is_absolute_and_means_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    command = settings(unit_of("node", Path('a "b" $c/5%/%i.toml'), ["/opt/lease hold"]))["ExecStart"]
    assert command.startswith(f'"/opt/lease hold" node start --config "{tmp_path}/a \\"b\\" $$c/5%%/%i.toml" --dir ')
    assert "/5%%/%%i.toml" in unit_of("coordinator", Path("5%/%i.toml"), ["/opt/leasehold"])
    assert escaped("a\\b") == '"a\\\\b"'


def test_a_path_that_would_end_a_line_is_refused() -> None:
    with pytest.raises(BadSettings, match="control character"):
        unit_of("node", Path("/etc/a\n[Unit]"), ["/opt/leasehold"])


def test_systemd_starts_the_command_of_this_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert program() == [str(tmp_path / "python"), "-m", "leasehold.cli.main"]
    (tmp_path / "leasehold").touch()
    assert program() == [str(tmp_path / "leasehold")]
