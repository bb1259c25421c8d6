"""A user and a password, given or taken from the environment."""

import os
from typing import Final

import msgspec

from leasehold.errors import BadSettings

USER_VARIABLE: Final = "LEASEHOLD_USER"
PASSWORD_VARIABLE: Final = "LEASEHOLD_PASSWORD"  # noqa: S105 - the name of a variable


class Credentials(msgspec.Struct, frozen=True):
    """A user and a password; LEASEHOLD_USER and LEASEHOLD_PASSWORD give what is missing, when it is needed."""

    user: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.user!r})"

    def complete(self) -> tuple[str, str] | None:
        """The user and the password; None if no user is named. Raises `BadSettings` where the password is missing."""
        user = self.user or os.environ.get(USER_VARIABLE)
        if not user:
            return None
        password = self.password if self.password is not None else os.environ.get(PASSWORD_VARIABLE)
        if password is None:
            raise BadSettings(f"the password of {user} is missing", hint=f"set {PASSWORD_VARIABLE}")
        return user, password
