"""Where the members of an engine are, and how they know their user."""

from pathlib import Path

import msgspec

from leasehold.errors import BadSettings
from leasehold.limits.log import STORE_PASSWORD_BYTES_MAX


class StoreAccess(msgspec.Struct, frozen=True, kw_only=True):
    """It holds names of files only, so it may be logged."""

    endpoints: tuple[str, ...]
    """Each `host:port`."""
    ca_file: Path | None = None
    """With this file connections are encrypted."""
    certificate_file: Path | None = None
    key_file: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    """Read at each login; a line feed at its end does not belong to the password."""

    def password(self) -> str:
        """Raises `BadSettings` where there is none."""
        if self.password_file is None:
            raise BadSettings("the store wants a password, and no file of one is set", hint="set meta_password_file")
        content = file_content(self.password_file)
        if len(content) > STORE_PASSWORD_BYTES_MAX:
            raise BadSettings(f"{self.password_file} is too large for a password", hint="write the password alone")
        try:
            return content.decode().removesuffix("\n")
        except UnicodeDecodeError as error:
            raise BadSettings(f"{self.password_file} is not UTF-8", hint="write the password as text") from error


def file_content(path: Path) -> bytes:
    """Raises `BadSettings` for a file that can't be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadSettings(f"{path} can't be read: {error.strerror}", hint="check its name, owner and mode") from error
