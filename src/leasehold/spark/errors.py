"""Our errors as Spark shows them to people."""

from collections.abc import Generator
from contextlib import contextmanager

from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, Indefinite, LeaseholdError


@contextmanager
def readable(table: str) -> Generator[None]:
    """Turns our errors into one line: Spark shows a traceback, and its last line must have all that a person needs."""
    try:
        yield
    except LeaseholdError as error:
        text = error.text if table in error.text else f"{table}: {error.text}"
        hint = f'read it with leasehold.spark.view(spark, "{table}")' if error.code == ErrorCode.IS_VIEW else error.hint
        line = " ".join(f"{text} [{error.code}]; {hint}".rstrip("; ").split())
        kind = Indefinite if isinstance(error, Indefinite) else Definite
        # Our own frames in the traceback would not help the reader.
        raise kind(line, code=error.code, hint=hint) from None
