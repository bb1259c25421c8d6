"""Who runs a command: `--user`, with the password from the environment or typed without echo, never an argument."""

import getpass
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from leasehold.client.cluster import Cluster
from leasehold.client.login import PASSWORD_VARIABLE, USER_VARIABLE

User = Annotated[
    str | None,
    typer.Option("--user", "-u", envvar=USER_VARIABLE, help=f"Who asks; {PASSWORD_VARIABLE} has the password."),
]


def connected(directory: Path, user: str | None) -> Cluster:
    """The cluster of a directory, asked by `user`; at a terminal a password that is not set is asked for at once."""
    password: str | None = None
    if user and PASSWORD_VARIABLE not in os.environ and sys.stdin.isatty():
        password = getpass.getpass(f"password of {user}: ", stream=sys.stderr)
    return Cluster(directory, user=user, password=password)
