"""Who asks: a user and a password, given or taken from the environment."""

import os
from collections.abc import Callable
from typing import Final

import msgspec

from leasehold.errors import BadSettings

USER_VARIABLE: Final = "LEASEHOLD_USER"
PASSWORD_VARIABLE: Final = "LEASEHOLD_PASSWORD"  # noqa: S105 - the name of a variable


class Credentials(msgspec.Struct, frozen=True):
    """Who one is; what is missing is taken from LEASEHOLD_USER and LEASEHOLD_PASSWORD when it is needed."""

    user: str | None = None
    password: str | Callable[[], str] | None = None
    """Or how to ask for it."""

    def __repr__(self) -> str:
        return f"Credentials({self.user!r})"

    def complete(self) -> tuple[str, str] | None:
        """The user and his password; None if nobody was named. Raises `BadSettings` where the password is missing."""
        user = self.user or os.environ.get(USER_VARIABLE)
        if not user:
            return None
        password = self.password if self.password is not None else os.environ.get(PASSWORD_VARIABLE)
        if password is None:
            raise BadSettings(f"the password of {user} is missing", hint=f"set {PASSWORD_VARIABLE}")
        return user, password if isinstance(password, str) else password()
