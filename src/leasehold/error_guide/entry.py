"""What is known of one error code."""

from typing import NamedTuple

from leasehold.errors import ExitCode

REFUSED = (ExitCode.REFUSED,)
UNKNOWN = (ExitCode.UNKNOWN,)
UNREACHABLE = (ExitCode.UNREACHABLE,)
USAGE = (ExitCode.USAGE,)
CHECK_FAILED = (ExitCode.CHECK_FAILED,)


class GuideEntry(NamedTuple):
    """One code for a person: what it means, what to do, and the exit codes of a command that ends by it."""

    meaning: str
    remedy: str
    exits: tuple[ExitCode, ...] = REFUSED
