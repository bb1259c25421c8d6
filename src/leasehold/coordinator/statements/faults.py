"""Faults of this program while a statement is looked at: they end that statement, and not the leader."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Refused

log = logging.getLogger(__name__)


@contextmanager
def ending_the_statement() -> Generator[None]:
    """Around what looks at a statement and writes nothing, and only that: what was not foreseen there is raised as
    `Refused` with code INTERNAL. Each further leader would fail on the same statement, and with it the whole cluster.
    """
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
