"""Who runs a command: `--user`, with the password from the environment or typed without echo, never an argument."""

import getpass
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from leasehold.client.coordinators import Coordinators
from leasehold.client.credentials import PASSWORD_VARIABLE
from leasehold.errors import LeaseholdError

C = TypeVar("C", bound=Coordinators)


def connected(
    kind: type[C],
    directory: Path,
    user: str | None,
    *,
    on_retry: Callable[[LeaseholdError, float], None] | None = None,
) -> C:
    """The cluster of a directory, asked by `user`; at a terminal a password that is not set is asked for at once."""
    password: str | None = None
    if user and PASSWORD_VARIABLE not in os.environ and sys.stdin.isatty():
        password = getpass.getpass(f"password of {user}: ", stream=sys.stderr)
    return kind(directory, user=user, password=password, on_retry=on_retry)
