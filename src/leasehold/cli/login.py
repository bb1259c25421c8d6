"""Who runs a command: `--user`, with the password from the environment or typed without echo, never an argument."""

import contextlib
import getpass
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TypeVar

from typer._click.core import ParameterSource
from typer._click.globals import get_current_context  # Typer exports no other way to what is parsed now

from leasehold.cli.output import Retrying
from leasehold.cli.statement import read_timeout_s
from leasehold.client.coordinators import Coordinators
from leasehold.client.credentials import CREDENTIALS_VARIABLE, PASSWORD_VARIABLE

C = TypeVar("C", bound=Coordinators)


@contextlib.contextmanager
def connected(
    kind: type[C],
    directory: Path,
    user: str | None,
    *,
    timeout: str | None = None,
    on_new_id: Callable[[str], None] = lambda _: None,
) -> Generator[C]:
    """A client of the cluster in a directory, for `user`. At a terminal, it asks for a password that is not set. A file
    of credentials says who and where, unless the command line does.

    A terminal shows which process does not answer, and for how long it is asked again: for `timeout`.
    """
    timeout_s = read_timeout_s(timeout)
    password: str | None = None
    target: Path | None = directory
    if os.environ.get(CREDENTIALS_VARIABLE):
        user = user if _is_typed("user") else None
        target = directory if _is_typed("directory") else None
    if user and PASSWORD_VARIABLE not in os.environ and sys.stdin.isatty():
        password = getpass.getpass(f"password of {user}: ", stream=sys.stderr)
    with (
        Retrying() as told,
        kind(
            target, user=user, password=password, timeout=timeout_s, on_retry=told.update, on_new_id=on_new_id
        ) as cluster,
    ):
        yield cluster


def _is_typed(parameter: str) -> bool:
    """Whether the words of the command give it, rather than a variable or a default."""
    return get_current_context().get_parameter_source(parameter) is ParameterSource.COMMANDLINE
