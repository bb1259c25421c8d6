"""The roots of every error a person or a peer can see.

An error is **definite** (it did not happen, and never will by this request) or **indefinite** (it may
have happened: look before doing it again). A timeout is never definite. Each error carries a stable
`code` for programs, a one-line `text` for people, and a `hint`: what to type or do next.
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
    """A path as a hint shows it: to be typed, or copied, into a shell."""
    return shlex.quote(str(path))


class LeaseholdError(Exception):
    """Root of all errors of this package; use one of its subclasses."""

    exit_code: ClassVar[ExitCode] = ExitCode.CHECK_FAILED
    default_code: ClassVar[ErrorCode] = ErrorCode.INTERNAL

    def __init__(self, text: str, *, code: ErrorCode | None = None, hint: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.code = code or self.default_code
        self.hint = hint


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

    def __init__(
        self,
        text: str,
        *,
        code: ErrorCode | None = None,
        hint: str = "run the same version of leasehold on all machines",
    ) -> None:
        super().__init__(text, code=code, hint=hint)


class NotFound(Refused):
    """The named object does not exist."""

    default_code = ErrorCode.NOT_FOUND


class AlreadyExists(Refused):
    """The name is taken."""

    default_code = ErrorCode.ALREADY_EXISTS


class Forbidden(Refused):
    """Whoever asks lacks a right."""

    default_code = ErrorCode.FORBIDDEN


class Unauthenticated(Refused):
    """Users exist here, and nobody knows who asks."""

    default_code = ErrorCode.UNAUTHENTICATED


class WrongPassword(Unauthenticated):
    """No such user, or not his password: which of the two is not told."""

    default_code = ErrorCode.WRONG_PASSWORD


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
    """This coordinator does not lead; nothing was done."""

    default_code = ErrorCode.NOT_LEADER


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


class CheckFailed(Definite):
    """A check that a person asked for did not hold."""

    exit_code = ExitCode.CHECK_FAILED
    default_code = ErrorCode.CHECK_FAILED


class Unreachable(Indefinite):
    """No answer; for a request that changes something, whether it happened is not known."""

    exit_code = ExitCode.UNREACHABLE
    default_code = ErrorCode.UNREACHABLE


class NotWritten(Refused):
    """Rows that were not written, and never will be by this request: the cluster could not be reached. Its code says
    how."""

    exit_code = ExitCode.UNREACHABLE
    default_code = ErrorCode.NOT_WRITTEN


class OutcomeUnknown(Indefinite):
    """A statement or commit whose outcome could not be learned in time. Of a statement, `statement_id` is the id by
    which it can be asked for again."""

    default_code = ErrorCode.UNKNOWN

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
