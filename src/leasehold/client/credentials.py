"""How a client logs in: what it was given, what a file of credentials or the environment says, or its certificate.

| first of these | logs in by |
| --- | --- |
| a user or a password that was given | the password, else that of LEASEHOLD_PASSWORD |
| a file of credentials | the token in it |
| LEASEHOLD_USER | the password that was given, else that of LEASEHOLD_PASSWORD |
| a certificate that the connection shows | the name in it |
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from leasehold.core.words.messages import AnyLogin, Login, LogInByCertificate, LogInByToken
from leasehold.durable import named_when_whole
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, BadSettings
from leasehold.ids import IDENTIFIER, NODE_ADDRESS, USER_TOKEN, UserToken, is_user_token
from leasehold.limits.clients import CREDENTIALS_FILE_BYTES_MAX
from leasehold.private_files import read_secret

USER_VARIABLE: Final = "LEASEHOLD_USER"
PASSWORD_VARIABLE: Final = "LEASEHOLD_PASSWORD"  # noqa: S105 - the name of a variable
CREDENTIALS_VARIABLE: Final = "LEASEHOLD_CREDENTIALS"
_MAKE: Final = "`leasehold token create` makes such a file"


class CredentialsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a cluster is, whom to trust, and a token to log in with: a file that only its owner can read."""

    address: str
    """`host:port` of coordinators, with commas between them."""
    user: str
    token: UserToken
    ca: str | None = None
    """The file of the authorities that its servers are certified by, from the folder of this file on; None without
    TLS."""

    def __repr__(self) -> str:
        return f"CredentialsFile({self.address!r}, {self.user!r})"


def find_credentials(given: str | Path | None) -> CredentialsFile | None:
    """The file that was given, else that of LEASEHOLD_CREDENTIALS; None if neither names one. Raises `BadSettings`
    (BAD_CREDENTIALS), which names the file and never shows what is in it."""
    named = given or os.environ.get(CREDENTIALS_VARIABLE)
    return _read(Path(named)) if named else None


def write_credentials(path: Path, content: CredentialsFile) -> None:
    """Makes the file, for its owner alone. Raises `AlreadyExists`, and `Refused` (NOT_WRITTEN)."""
    hint = "check the space on the disk and your rights there"
    with named_when_whole(path, exists=_exists, hint=hint) as unnamed:
        unnamed.file.write(msgspec.json.format(msgspec.json.encode(content)) + b"\n")


def _exists(path: Path) -> AlreadyExists:
    return AlreadyExists(f"{path} already exists", hint="choose another path, or remove the file first")


def _read(path: Path) -> CredentialsFile:
    content = read_secret(
        path, CREDENTIALS_FILE_BYTES_MAX, lambda text, hint: _bad(path, f"it {text}", hint), f"check the path; {_MAKE}"
    )
    try:
        found = msgspec.json.decode(content, type=CredentialsFile)
    except msgspec.ValidationError as error:
        text = "a token is the name of a field" if USER_TOKEN.search(str(error)) else str(error)
        raise _bad(path, text, _MAKE) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _bad(path, "it is not JSON", _MAKE) from None
    if not all(NODE_ADDRESS.fullmatch(one) for one in found.address.split(",")):
        raise _bad(path, "field address: it must be host:port, with commas between several", _MAKE)
    if IDENTIFIER.fullmatch(found.user) is None:
        raise _bad(path, "field user: it is not the name of a user", _MAKE)
    if not is_user_token(found.token):
        raise _bad(path, "field token: it is not a token of CREATE TOKEN", _MAKE)
    if found.ca is not None and (not found.ca or "\0" in found.ca):
        raise _bad(path, "field ca: it is not a path", _MAKE)
    return found if found.ca is None else msgspec.structs.replace(found, ca=str(path.absolute().parent / found.ca))


def _bad(path: Path, text: str, hint: str) -> BadSettings:
    return BadSettings(f"credentials {path}: {text}", code=ErrorCode.BAD_CREDENTIALS, hint=hint)


class Credentials(msgspec.Struct, frozen=True):
    """What a client can log in with. The environment is looked at when a login is needed."""

    user: str | None = None
    password: str | None = None
    file: CredentialsFile | None = None
    has_certificate: bool = False

    def __repr__(self) -> str:
        return f"Credentials({self.user!r})"

    def complete(self) -> AnyLogin | None:
        """The request for a login; None if nothing says who asks. Raises `BadSettings` where a password is missing."""
        if self.file is not None and self.user is None and self.password is None:
            return LogInByToken(cluster_id=None, user=self.file.user, token=self.file.token)
        user = self.user or os.environ.get(USER_VARIABLE)
        if not user:
            return LogInByCertificate(cluster_id=None) if self.has_certificate else None
        password = self.password if self.password is not None else os.environ.get(PASSWORD_VARIABLE)
        if password is None:
            raise BadSettings(f"the password of {user} is missing", hint=f"set {PASSWORD_VARIABLE}")
        return Login(cluster_id=None, user=user, password=password)
