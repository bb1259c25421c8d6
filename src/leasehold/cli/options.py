"""Options that several commands take."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from leasehold.cli.output import Output
from leasehold.client.credentials import PASSWORD_VARIABLE, USER_VARIABLE
from leasehold.client.locate import TARGET_DEFAULT
from leasehold.client.trust import TLS_VARIABLE
from leasehold.errors import BadSettings

CONFIG_VARIABLE: Final = "LEASEHOLD_CONFIG"


def read_directory(given: str | Path) -> Path:
    """Raises `BadSettings` for an empty name, which would mean the current directory."""
    if not str(given):
        raise BadSettings("the directory's name is empty", hint="give --dir a path; `.` is the directory you are in")
    return Path(given)


def _directory(variable: str, help: str, *short: str) -> Any:  # noqa: A002 - typer's word
    return typer.Option("--dir", *short, envvar=variable, help=help, parser=read_directory, metavar="PATH")


DIR_VARIABLE: Final = "LEASEHOLD_DIR"
Dir = Annotated[Path, _directory(DIR_VARIABLE, "The directory of the cluster.", "-d")]
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
DEFAULT_DIR: Final = Path(TARGET_DEFAULT)

ConfigFile = Annotated[
    Path | None, typer.Option("--config", envvar=CONFIG_VARIABLE, help="A TOML file; flags and variables override it.")
]
NodeDir = Annotated[Path, _directory("LEASEHOLD_NODE_DIR", "The node's data.")]
OwnDir = Annotated[Path | None, _directory("LEASEHOLD_NODE_DIR", "Its data.")]
CoordinatorDir = Annotated[Path | None, _directory("LEASEHOLD_COORDINATOR_DIR", "Its data.")]
LongestLease = Annotated[
    str | None,
    typer.Option(
        "--longest-lease",
        help="The longest lease_duration since the backup, such as 3s. The coordinator waits until leases of the lost"
        " state have ended.",
        show_default="600s, the longest that can be set",
    ),
]
Listen = Annotated[
    str | None,
    typer.Option(
        "--listen",
        envvar="LEASEHOLD_LISTEN",
        help="host:port; port 0 chooses a free port.",
        show_default="127.0.0.1:7400 of a coordinator, 127.0.0.1:7410 of a node",
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
Tls = Annotated[
    Path | None,
    typer.Option(
        "--tls", envvar=TLS_VARIABLE, help="The folder of its certificate; with it, it serves other machines too."
    ),
]
Gossip = Annotated[
    str | None,
    typer.Option(
        "--gossip",
        envvar="LEASEHOLD_GOSSIP",
        help="host:port of its gossip, over UDP.",
        show_default="the address that it listens on",
    ),
]


class RestartWhen(StrEnum):
    """What `--restart` takes; the supervisor reads it (`cli/supervised.py`)."""

    ON_FAILURE = "on-failure"
    NEVER = "never"


Restart = Annotated[
    RestartWhen,
    typer.Option("--restart", help="Whether its supervisor starts it again if it is killed or fails."),
]
Meta = Annotated[
    str | None,
    typer.Option(
        "--meta",
        envvar="LEASEHOLD_META",
        help="Where coordinators share a meta storage, such as etcd://10.0.0.1:2379,10.0.0.2:2379/my-cluster.",
        show_default="a file of its own",
    ),
]
MetaCa = Annotated[
    Path | None,
    typer.Option("--meta-ca", envvar="LEASEHOLD_META_CA", help="The certificates that the store's is signed by."),
]
MetaCert = Annotated[
    Path | None, typer.Option("--meta-cert", envvar="LEASEHOLD_META_CERT", help="A certificate to show to the store.")
]
MetaKey = Annotated[
    Path | None, typer.Option("--meta-key", envvar="LEASEHOLD_META_KEY", help="The key of that certificate.")
]
MetaUser = Annotated[str | None, typer.Option("--meta-user", envvar="LEASEHOLD_META_USER", help="A user of the store.")]
MetaPasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--meta-password-file", envvar="LEASEHOLD_META_PASSWORD_FILE", help="The file with that user's password."
    ),
]
MetaQuota = Annotated[
    str | None,
    typer.Option(
        "--meta-quota",
        envvar="LEASEHOLD_META_QUOTA",
        help="How much the store may hold, if it does not say so itself.",
        show_default="2GiB",
    ),
]
