"""Statements without the passwords in them, for logs, receipts and the history."""

import re
from collections.abc import Iterator
from typing import Final

from leasehold.core.words.statements import CreateUser, Explain, SetPassword
from leasehold.errors import Refused
from leasehold.sql.front import read
from leasehold.sql.parse import parse

_USER: Final = re.compile("user", re.IGNORECASE)
_ANNOUNCED: Final = re.compile(
    r"password|identified(?:\s+by)?"
    r"|(?:create|alter)\s+user\s+(?:if\s+not\s+exists\s+)?+[^\s'\"]++(?!\s+(?:password|identified))",
    re.IGNORECASE,
)
_QUOTE: Final = re.compile("['\"]")
_COMMENT: Final = re.compile(r"--|/\*")
_HIDDEN: Final = "***"


def redacted(text: str) -> str:
    """`text` with `'***'` in place of its password, then also without comments. Never raises.

    A text that can't be parsed is cut where a password or a comment may start.
    """
    if _USER.search(text) is None and _ANNOUNCED.search(text) is None:
        return text
    try:
        statement = parse(text)
    except Refused:
        ends = tuple(_ends(text))
        comment = _COMMENT.search(text) if ends else None
        if comment is not None:
            ends = (*ends, comment.start())
        return f"{text[: min(ends)].rstrip()} {_HIDDEN}" if ends else text
    if isinstance(statement, Explain):
        statement = statement.statement
    if not isinstance(statement, CreateUser | SetPassword):
        return text
    # The password is the last word of both. A comment may hold one too.
    *words, _ = (text[token.start : token.end + 1] for token in read(text).tokens)
    return " ".join((*words, f"'{_HIDDEN}'"))


def _ends(text: str) -> Iterator[int]:
    """The end of the words before a password, and the first quote behind USER."""
    announced = _ANNOUNCED.search(text)
    if announced is not None:
        yield announced.end()
    user = _USER.search(text)
    quote = _QUOTE.search(text, user.end()) if user is not None else None
    if quote is not None:
        yield quote.start()
