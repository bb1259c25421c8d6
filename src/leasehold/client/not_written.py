"""Errors of writes that write nothing."""

from collections.abc import Generator
from contextlib import contextmanager

from leasehold.errors import Indefinite, NotWritten, Unreachable


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
