"""`leasehold service print`: the units of systemd for a coordinator and for the nodes of a machine.

docs/decisions/0045 has the reasons for what is in them.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from leasehold.cli.output import say
from leasehold.errors import BadSettings
from leasehold.limits.processes import (
    SERVICE_ABORT_S,
    SERVICE_COORDINATOR_MEMORY,
    SERVICE_FILES_MAX,
    SERVICE_NODE_MEMORY,
    SERVICE_RESTART_PAUSE_S,
    SERVICE_STOP_S,
    SERVICE_WATCHDOG_S,
)

if TYPE_CHECKING:
    from leasehold.cli.config import ProcessRole

KEY_FILE: Final = "/etc/leasehold/cluster.key"
_PLAIN: Final = re.compile(r"[\w%$@+=:,./-]+", re.ASCII)
_GIVEN: Final = (
    "--dir",
    "${STATE_DIRECTORY}",
    "--cluster-key",
    "${CREDENTIALS_DIRECTORY}/cluster.key",
    "--restart never",
)
"""Flags are over the file: the process may write only to its StateDirectory, and reads the key as a credential."""
_UNIT: Final = """\
# {unit}: `leasehold service print` wrote it. Put it into /etc/systemd/system, and change it with
# `systemctl edit`. It needs a user and a group `leasehold`, {config} and
# {key}, which root alone has to be able to read.
[Unit]
Description=Leasehold {what}
Wants=network-online.target
After=network-online.target
# A process that fails is started again for as long as it takes.
StartLimitIntervalSec=0

[Service]
Type=notify
# The main process is the supervisor. The process below it serves, so that one says that it is ready, and its event loop
# feeds the watchdog: systemd has to listen to both.
NotifyAccess=all
WatchdogSec={watchdog}
# Only systemd starts the process again. With exit codes 2 and 3 a person has to act.
ExecStart={command}
# It looks whether its certificate was renewed.
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec={restart}
RestartPreventExitStatus=2 3
TimeoutStopSec={stop}
TimeoutAbortSec={abort}
User=leasehold
Group=leasehold
UMask=0077
# The data, below /var/lib. Everything else is read-only for the process.
StateDirectory={state}
StateDirectoryMode=0700
ProtectSystem=strict
PrivateTmp=yes
NoNewPrivileges=yes
LoadCredential=cluster.key:{key}
LimitNOFILE={files}
MemoryMax={memory}

[Install]
WantedBy=multi-user.target
"""


class ServiceKind(NamedTuple):
    """What the units of nodes and of coordinators differ in."""

    unit: str
    what: str
    words: tuple[str, ...]
    config: Path
    state: str
    memory: str


_KINDS: Final[Mapping["ProcessRole", ServiceKind]] = {
    "coordinator": ServiceKind(
        unit="leasehold-coordinator.service",
        what="coordinator",
        words=("coordinator",),
        config=Path("/etc/leasehold/coordinator.toml"),
        state="leasehold/coordinator",
        memory=SERVICE_COORDINATOR_MEMORY,
    ),
    "node": ServiceKind(
        unit="leasehold-node@.service",
        what="node %i",
        words=("node", "start"),
        config=Path("/etc/leasehold/%i.toml"),
        state="leasehold/nodes/%i",
        memory=SERVICE_NODE_MEMORY,
    ),
}
"""In a template systemd replaces %i by the name of the instance, which is the name of the node."""

service = typer.Typer(no_args_is_help=True, help="Run processes below systemd.")


@service.callback()
def _commands() -> None:
    """Run processes below systemd."""  # with a callback, typer keeps the one command a command


@service.command("print")
def print_unit(
    *,
    node: Annotated[bool, typer.Option("--node", help="The template of nodes, leasehold-node@.service.")] = False,
    coordinator: Annotated[
        bool, typer.Option("--coordinator", help="The unit of a coordinator, leasehold-coordinator.service.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="The configuration that the unit names. In the template of nodes, %i stands for the name of the node.",
            show_default="/etc/leasehold/coordinator.toml or /etc/leasehold/%i.toml",
        ),
    ] = None,
) -> None:
    """Write a systemd unit to stdout. Nothing is installed, and no file is read."""
    if node is coordinator:
        raise BadSettings("the unit of which process?", hint="give --node or --coordinator, one of the two")
    say(unit_of("node" if node else "coordinator", config, program()).removesuffix("\n"))


def program() -> list[str]:
    """How systemd starts `leasehold`: the command beside this interpreter, if it is there."""
    script = Path(sys.executable).with_name("leasehold")
    return [str(script)] if script.exists() else [sys.executable, "-m", "leasehold.cli.main"]


def unit_of(role: "ProcessRole", config: Path | None, program: Sequence[str]) -> str:
    """The text of the unit. Raises `BadSettings` for a path that no unit can have."""
    kind = _KINDS[role]
    where = (config or kind.config).absolute()
    if not str(where).isprintable():
        raise BadSettings("the path of the configuration has a control character", hint="give --config another path")
    config_word = escaped(str(where))
    if role == "node":
        config_word = config_word.replace("%%i", "%i")
    words = [*map(escaped, program), *kind.words, "--config", config_word, *_GIVEN]
    return _UNIT.format(
        unit=kind.unit,
        what=kind.what,
        config=config_word,
        key=KEY_FILE,
        command=" ".join(words),
        state=kind.state,
        memory=kind.memory,
        watchdog=SERVICE_WATCHDOG_S,
        restart=SERVICE_RESTART_PAUSE_S,
        stop=SERVICE_STOP_S,
        abort=SERVICE_ABORT_S,
        files=SERVICE_FILES_MAX,
    )


def escaped(word: str) -> str:
    """A word of a command in a unit, in which systemd replaces nothing."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return text if _PLAIN.fullmatch(text) else f'"{text}"'
