"""Where the members of an engine are, and how they know their user."""

from pathlib import Path

import msgspec

from leasehold.errors import BadSettings
from leasehold.limits.certificates import CERTIFICATE_FILE_BYTES_MAX
from leasehold.limits.log import STORE_PASSWORD_BYTES_MAX
from leasehold.private_files import MakesError, read_any


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
        path = self.password_file
        content = read_any(path, STORE_PASSWORD_BYTES_MAX, _refused(path), "write the password alone into the file")
        try:
            return content.decode().removesuffix("\n")
        except UnicodeDecodeError as error:
            raise BadSettings(f"{path} is not UTF-8", hint="write the password as text") from error


def file_content(path: Path) -> bytes:
    """A certificate, or its key. Raises `BadSettings` for a file that can't be read, or is too large."""
    return read_any(path, CERTIFICATE_FILE_BYTES_MAX, _refused(path), "check its name, owner and mode")


def _refused(path: Path) -> MakesError:
    return lambda text, hint: BadSettings(f"{path} {text}", hint=hint)
