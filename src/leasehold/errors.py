"""The roots of every error a person or a peer can see.

An error is **definite** (it did not happen, and never will by this request) or **indefinite** (it may have happened:
look before doing it again). A timeout is never definite. Each error has a stable `code` for programs, a one-line `text`
for people, and a `hint`: what to type or do next.
"""

import shlex
from enum import IntEnum
from typing import ClassVar

from leasehold.error_codes import ErrorCode


class ExitCode(IntEnum):
    """What a command line ends with; documented in the README and stable."""

    DONE = 0
    CHECK_FAILED = 1
    USAGE = 2
    REFUSED = 3
    UNKNOWN = 4
    UNREACHABLE = 5
    PENDING = 6
    """Committed, while nodes that can still serve what was before have not been heard of within the timeout."""


def typed(path: object) -> str:
    """A path, quoted for a shell: a hint shows what to type."""
    return shlex.quote(str(path))


class LeaseholdError(Exception):
    """Root of all errors of this package; use one of its subclasses."""

    exit_code: ClassVar[ExitCode] = ExitCode.CHECK_FAILED
    default_code: ClassVar[ErrorCode] = ErrorCode.INTERNAL
    default_hint: ClassVar[str] = ""

    def __init__(self, text: str, *, code: ErrorCode | None = None, hint: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.code = code or self.default_code
        self.hint = self.default_hint if hint is None else hint


class Definite(LeaseholdError):
    """It did not happen, and this request will never make it happen."""

    exit_code = ExitCode.REFUSED
    default_code = ErrorCode.REFUSED


class Indefinite(LeaseholdError):
    """It may have happened; look before doing it again."""

    exit_code = ExitCode.UNKNOWN
    default_code = ErrorCode.UNKNOWN


class Refused(Definite):
    """A request that is well understood and declined: no such table, wrong schema, rolled back."""


class BadStatement(Refused):
    """SQL that does not parse, or that is not one of our statements."""

    default_code = ErrorCode.BAD_STATEMENT


class BadMessage(Refused):
    """A message that is not valid, or not expected here: the two sides may be of different versions."""

    default_code = ErrorCode.BAD_MESSAGE
    default_hint = "run the same version of leasehold on all machines"


def unexpected_answer(answer: object) -> BadMessage:
    """An answer of a kind that does not belong to the question."""
    return BadMessage(f"unexpected answer: {type(answer).__name__}")


class NotFound(Refused):
    """The named object does not exist."""

    default_code = ErrorCode.NOT_FOUND


class AlreadyExists(Refused):
    """The name is taken."""

    default_code = ErrorCode.ALREADY_EXISTS


class Forbidden(Refused):
    """The user lacks a right."""

    default_code = ErrorCode.FORBIDDEN


class Unauthenticated(Refused):
    """The cluster has users, and the request names none, or its login is not valid."""

    default_code = ErrorCode.UNAUTHENTICATED


class WrongPassword(Unauthenticated):
    """No such user, or the wrong password: the error does not say which."""

    default_code = ErrorCode.WRONG_PASSWORD


class WrongUserToken(Unauthenticated):
    """A token of nobody, of another user, or of the past: the error does not say which."""

    default_code = ErrorCode.WRONG_USER_TOKEN


class Fenced(Definite):
    """The node can't prove that its view is current; another replica may serve."""

    default_code = ErrorCode.FENCED


class Superseded(Definite):
    """A newer incarnation of this node exists: this one ends."""

    default_code = ErrorCode.SUPERSEDED


class NotInitialised(Definite):
    """The meta storage has no cluster id yet."""

    default_code = ErrorCode.NOT_INITIALISED


class NotLeader(Definite):
    """This coordinator does not lead; nothing was done. `leader` is the address of the one that it saw lead last, in
    `term`; empty and 0 if it has seen none. `cause` is NO_QUORUM if nobody can lead for that reason, as far as it
    sees; `hint` then says what to do about it."""

    default_code = ErrorCode.NOT_LEADER

    def __init__(
        self,
        text: str,
        *,
        code: ErrorCode | None = None,
        hint: str | None = None,
        leader: str = "",
        term: int = 0,
        cause: ErrorCode | None = None,
    ) -> None:
        super().__init__(text, code=code, hint=hint)
        self.leader = leader
        self.term = term
        self.cause = cause


class SealUnknown(Definite):
    """Nothing was committed: this leader has not heard yet of a node whose seal it needs. Ask again."""

    default_code = ErrorCode.SEAL_UNKNOWN


class BadDirectory(Definite):
    """A data directory that is locked by another process, damaged, or of a newer version."""

    default_code = ErrorCode.BAD_DIRECTORY


class Corrupt(BadDirectory):
    """Stored bytes do not match their checksum."""

    default_code = ErrorCode.CORRUPT


class BadSettings(Definite):
    """A setting, flag or environment variable out of range."""

    exit_code = ExitCode.USAGE
    default_code = ErrorCode.BAD_SETTINGS


class BadCertificate(BadSettings):
    """A certificate, its key or its file that can't be used. The text never holds what is in a file with a key."""

    default_code = ErrorCode.BAD_CERTIFICATE


class NotInstalled(BadSettings, ImportError):
    """A package that only some users of Leasehold need is missing."""

    default_code = ErrorCode.NOT_INSTALLED


def spark_not_installed(package: str) -> NotInstalled:
    """The error of a package of `leasehold[spark]` that can't be imported."""
    return NotInstalled(f"{package} is not installed here", hint="pip install 'leasehold[spark]'")


class CheckFailed(Definite):
    """A check that a person asked for did not hold."""

    exit_code = ExitCode.CHECK_FAILED
    default_code = ErrorCode.CHECK_FAILED


class Unreachable(Indefinite):
    """No answer. If `was_sent`, a request that changes something may have happened; else it surely did not."""

    exit_code = ExitCode.UNREACHABLE
    default_code = ErrorCode.UNREACHABLE

    def __init__(
        self, text: str, *, code: ErrorCode | None = None, hint: str | None = None, was_sent: bool = True
    ) -> None:
        super().__init__(text, code=code, hint=hint)
        self.was_sent = was_sent


class NotWritten(Refused):
    """This request did not write its rows and never will: the cluster could not be reached. The code says how."""

    exit_code = ExitCode.UNREACHABLE
    default_code = ErrorCode.NOT_WRITTEN


class OutcomeUnknown(Indefinite):
    """A statement or commit whose outcome could not be learned in time; `statement_id` asks again for a statement."""

    def __init__(
        self, text: str, *, code: ErrorCode | None = None, hint: str = "", statement_id: str | None = None
    ) -> None:
        super().__init__(text, code=code, hint=hint)
        self.statement_id = statement_id


def gravest(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error of several that says what to do: an unexpected one first, then a definite, then an indefinite."""
    leaves: list[BaseException] = []
    for one in errors.exceptions:
        leaves.append(gravest(one) if isinstance(one, BaseExceptionGroup) else one)  # noqa: PERF401 - the else is ours
    return min(leaves, key=lambda one: (isinstance(one, LeaseholdError), isinstance(one, Indefinite)))
