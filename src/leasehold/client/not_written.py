"""Writes that fail: they write nothing, and say so."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from leasehold.core.words.messages import TableFacts
from leasehold.errors import Indefinite, LeaseholdError, NotWritten, Unreachable
from leasehold.ids import TransactionId

if TYPE_CHECKING:
    from leasehold.client.coordinators import Coordinators


@contextmanager
def writing_nothing() -> Generator[None]:
    """Makes an indefinite error definite: a write that fails before its commit writes nothing."""
    try:
        yield
    except Indefinite as error:
        raise not_written(error) from error


def not_written(error: Indefinite) -> NotWritten:
    code = error.code if isinstance(error, Unreachable) else Unreachable.default_code
    return NotWritten(f"nothing was written: {error.text}", code=code, hint=error.hint)


@contextmanager
def aborted_on_error(cluster: "Coordinators", facts: TableFacts, transaction: TransactionId) -> Generator[None]:
    """Aborts a write transaction on a table if an error ends the block.

    It asks once, since a transaction that is not aborted expires by itself, and the first error is the one to see.
    """
    try:
        yield
    except BaseException:
        with suppress(LeaseholdError):
            cluster.try_abort(facts.cluster_id, transaction)
        raise
