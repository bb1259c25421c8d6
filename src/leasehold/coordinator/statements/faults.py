"""Faults of this program that end a statement, and not the leader."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Refused

log = logging.getLogger(__name__)


@contextmanager
def ending_the_statement() -> Generator[None]:
    """Around code that reads a statement and writes nothing: an unexpected error becomes `Refused` (INTERNAL).
    Otherwise each further leader would fail on the same statement."""
    try:
        yield
    except LeaseholdError:
        raise
    except Exception as fault:
        log.exception("refusing a statement, because this program fails on it")
        raise Refused(
            f"the coordinator failed on this statement ({type(fault).__name__}); nothing changed",
            code=ErrorCode.INTERNAL,
            hint="its log says why: report the error, and write the statement in another way",
        ) from fault
