"""A statement from stdin, and durations in options."""

from typing import TextIO

from leasehold.core.words.durations import parse_duration
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, Refused
from leasehold.limits.statements import STATEMENT_CHARACTERS_MAX
from leasehold.limits.units import SECOND_NS


def read_statement(stdin: TextIO) -> str:
    """At most one character more than a statement may have, so that the parser refuses a longer text.

    Raises `Refused` with code BAD_TEXT for bytes that are not text.
    """
    try:
        return stdin.read(STATEMENT_CHARACTERS_MAX + 1)
    except UnicodeDecodeError as error:
        raise Refused(
            f"stdin is not text: {error}", code=ErrorCode.BAD_TEXT, hint=f"write it in {error.encoding}"
        ) from error


def read_timeout_ns(text: str) -> int:
    """A value of `--timeout`. Raises `BadSettings`."""
    timeout_ns = read_duration_ns("--timeout", text)
    if timeout_ns == 0:
        raise BadSettings("--timeout: the duration must be longer than zero", hint="write 2s or 500ms")
    return timeout_ns


def read_timeout_s(text: str | None) -> float | None:
    """A value of `--timeout` in seconds; None if it is not given. Raises `BadSettings`."""
    return None if text is None else read_timeout_ns(text) / SECOND_NS


def read_duration_ns(option: str, text: str) -> int:
    """A duration that is the value of an option. Raises `BadSettings`, which names the option."""
    try:
        return parse_duration(text)
    except Refused as error:
        raise BadSettings(f"{option}: {error.text}", hint=error.hint) from error
