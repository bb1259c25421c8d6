"""Options that several commands take."""

from pathlib import Path
from typing import Annotated, Final

import typer

from leasehold.cli.output import Output
from leasehold.client.credentials import PASSWORD_VARIABLE, USER_VARIABLE
from leasehold.errors import BadSettings

CONFIG_VARIABLE: Final = "LEASEHOLD_CONFIG"


def read_directory(given: str | Path) -> Path:
    """Raises `BadSettings` for an empty one: it would be whatever directory the command is run in."""
    if not str(given):
        raise BadSettings("the directory's name is empty", hint="give --dir a path; `.` is the directory you are in")
    return Path(given)


Dir = Annotated[
    Path,
    typer.Option(
        "--dir",
        "-d",
        envvar="LEASEHOLD_DIR",
        help="The directory of the cluster.",
        parser=read_directory,
        metavar="PATH",
    ),
]
Out = Annotated[Output, typer.Option("--output", "-o", help="A table for people, or JSON for programs.")]
User = Annotated[
    str | None,
    typer.Option(
        "--user", "-u", envvar=USER_VARIABLE, help=f"The user who runs it; {PASSWORD_VARIABLE} holds the password."
    ),
]
Asking = Annotated[
    str | None,
    typer.Option("--timeout", help="How long to retry while no process answers, such as 10s.", show_default="30s"),
]
NodeName = Annotated[str, typer.Argument(help="A node's name or number, or `coordinator`.")]
DEFAULT_DIR: Final = Path("leasehold-data")

ConfigFile = Annotated[
    Path | None, typer.Option("--config", envvar=CONFIG_VARIABLE, help="A TOML file; flags and variables override it.")
]
NodeDir = Annotated[
    Path,
    typer.Option("--dir", envvar="LEASEHOLD_NODE_DIR", help="The node's data.", parser=read_directory, metavar="PATH"),
]
OwnDir = Annotated[
    Path | None,
    typer.Option("--dir", envvar="LEASEHOLD_NODE_DIR", help="Its data.", parser=read_directory, metavar="PATH"),
]
CoordinatorDir = Annotated[
    Path | None,
    typer.Option("--dir", envvar="LEASEHOLD_COORDINATOR_DIR", help="Its data.", parser=read_directory, metavar="PATH"),
]
StoppedCoordinatorDir = Annotated[
    Path,
    typer.Option(
        "--dir",
        envvar="LEASEHOLD_COORDINATOR_DIR",
        help="The coordinator's data.",
        parser=read_directory,
        metavar="PATH",
    ),
]
Listen = Annotated[
    str | None,
    typer.Option(
        "--listen", envvar="LEASEHOLD_LISTEN", help="host:port; port 0 chooses a free port.", show_default="127.0.0.1:0"
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option(
        "--advertise",
        envvar="LEASEHOLD_ADVERTISE",
        help="host:port that other processes connect to; port 0 stands for the port it listens on.",
        show_default="the one it listens on",
    ),
]
Seeds = Annotated[
    list[str] | None,
    typer.Option("--seed", envvar="LEASEHOLD_SEEDS", help="A gossip address to contact first; may be repeated."),
]
ClusterKey = Annotated[
    Path | None,
    typer.Option("--cluster-key", envvar="LEASEHOLD_CLUSTER_KEY", help="The file with the cluster key."),
]
Gossip = Annotated[
    str | None, typer.Option("--gossip", envvar="LEASEHOLD_GOSSIP", help="host:port of its gossip, over UDP.")
]
