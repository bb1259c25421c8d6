"""`leasehold doctor`: tries what a process will need from this host, and says what to do."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.options import CONFIG_VARIABLE, Out
from leasehold.cli.output import Line, Output, note, say, show_json
from leasehold.errors import BadSettings, ExitCode

if TYPE_CHECKING:
    from leasehold.cli.checkup.finding import HostFinding
    from leasehold.cli.config import CoordinatorConfig, NodeConfig


def doctor(
    *,
    config: Annotated[
        Path,
        typer.Option(
            "--config", envvar=CONFIG_VARIABLE, help="The configuration of the process; variables override it."
        ),
    ],
    node: Annotated[bool, typer.Option("--node", help="It is that of a node.")] = False,
    coordinator: Annotated[bool, typer.Option("--coordinator", help="It is that of a coordinator.")] = False,
    output: Out = Output.TABLE,
) -> None:
    """Try what a process needs from this host: its files, ports, names, other processes, gossip and clocks. Exit 1 if
    something is wrong.

    Run it as the user of the process and on its machine, before the process starts or while it runs. Nothing is
    changed. --node or --coordinator is needed where the file has no key that only one of them has.
    """
    process = _read(config, is_node=node, is_coordinator=coordinator)
    from leasehold.cli.checkup.examine import examine

    with Line() as progress:
        findings = examine(process, progress.show)
    bad = sum(not one.ok for one in findings)
    if output is Output.JSON:
        from msgspec import to_builtins

        show_json({"problems": bad, "findings": to_builtins(findings)})
    else:
        for one in findings:
            say(_line(one))
    if bad:
        note(f"{bad} of {len(findings)} checks failed")
        raise typer.Exit(int(ExitCode.CHECK_FAILED))


def _line(one: "HostFinding") -> str:
    text = f"{'ok' if one.ok else 'wrong':5}  {one.check}: {one.text}"
    return f"{text}; {one.hint}" if one.hint else text


def _read(file: Path, *, is_node: bool, is_coordinator: bool) -> "NodeConfig | CoordinatorConfig":
    from leasehold.cli.config import COORDINATOR_KEYS, NODE_KEYS, ConfigKey, coordinator_config, node_config, own_keys

    if is_node is is_coordinator:
        is_node, is_coordinator = own_keys(file)
    if is_node is is_coordinator:
        raise BadSettings(f"is {file} of a node or of a coordinator?", hint="give --node or --coordinator")

    def given(keys: tuple[ConfigKey, ...]) -> dict[str, object]:
        told = {key.name: value for key in keys if (value := os.environ.get(key.variable))}
        lists = {key.name for key in keys if key.kind == "addresses"}
        return {name: value.split() if name in lists else value for name, value in told.items()}

    return node_config(file, given(NODE_KEYS)) if is_node else coordinator_config(file, given(COORDINATOR_KEYS))
