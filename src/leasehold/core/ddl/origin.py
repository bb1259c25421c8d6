"""Whose a statement is, and who hears of it when it is asked for again by its id.

A client whose answer was lost asks again by the statement's id. The statement may have ended the login that it came
with (another password, DROP USER), so that login still counts for this one statement.

| who asks, where users exist | `Execute` with the same text | `Execute` with another text | `AskOutcome` |
| --- | --- | --- | --- |
| the login or the user that it came from | the receipt | STATEMENT_ID_USED | the receipt |
| an administrator | STATEMENT_ID_USED | STATEMENT_ID_USED | the receipt |
| another user | STATEMENT_ID_USED | STATEMENT_ID_USED | FORBIDDEN |
| nobody | UNAUTHENTICATED | UNAUTHENTICATED | UNAUTHENTICATED |
| anybody, of a statement from before there were users | the receipt | STATEMENT_ID_USED | the receipt without text |

Without users, only the text is compared. A record of an older version has no hash of its text: then what it keeps of
the text is compared.

An INSERT is a write transaction of the statement's id, and the same holds for it: `check_same_insert`. An id stands for
one statement, whether that is an INSERT or another one.
"""

import hashlib

import msgspec

from leasehold.core.access.rights import check_administrator, user_by
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.membership.identity import hash_login
from leasehold.core.words.records import StatementRecord, TransactionRecord
from leasehold.core.words.statements import fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadStatement, Forbidden, NotLeader, Refused
from leasehold.ids import LoginToken, StatementId, Term, is_hex_128
from leasehold.limits.statements import STATEMENT_TEXT_BYTES_KEPT, STATEMENT_TEXT_COMPARED


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The user, login and text of a statement; `text` is the beginning of it, without secrets."""

    user: str | None
    login: bytes | None
    text: str
    text_sha256: bytes

    @classmethod
    def of(cls, record: StatementRecord) -> "Origin":
        return cls(user=record.user, login=record.login, text=record.text, text_sha256=record.text_sha256)

    def has_text(self, text: str) -> bool:
        """Whether the statement was asked for by this text, without a secret in it."""
        if not self.text_sha256:
            return text[:STATEMENT_TEXT_COMPARED] == self.text
        return hash_text(text) == self.text_sha256

    def is_of(self, login: bytes | None, catalog: Catalog) -> bool:
        """Whether this login or its user asked for the statement. Raises `Unauthenticated`."""
        if self.login is not None and login == self.login:
            return True
        if self.user is None and self.login is None:
            return True  # from before there were users
        asking = user_by(login, catalog)
        return asking is None or (self.user is not None and fold(asking.name) == fold(self.user))


def beginning(text: str, bytes_max: int = STATEMENT_TEXT_BYTES_KEPT) -> str:
    """What is kept of a text: its beginning, of at most so many bytes in memory and in UTF-8. Python takes as much
    memory for each character as for the widest one, so one emoji costs three quarters of the characters."""
    kept = text[:bytes_max]
    if kept.isascii():
        return kept
    return kept[: bytes_max // len(max(kept).encode("utf-8", "surrogatepass"))]


def hash_text(text: str) -> bytes:
    """What records keep to compare a text with."""
    return hashlib.sha256(text.encode()).digest()


def check_same_asker(origin: Origin, login: bytes | None, catalog: Catalog) -> None:
    """Raises `Refused` (STATEMENT_ID_USED) for an id that another user has used, and `Unauthenticated`."""
    if not origin.is_of(login, catalog):
        raise _id_used("the statement id was used by another user")


def check_term(asked: Term | None, term: Term) -> None:
    """Raises `NotLeader` for a statement that is new to the leader of `term` and was sent to that of another term.

    The leader that had refused it, or had found nothing to do, remembers that; a later leader does not, and would run a
    copy that comes late.
    """
    if asked is not None and asked != term:
        raise NotLeader(f"term {asked} has ended", term=term, hint=f"ask again: this coordinator leads term {term}")


def check_same_insert(
    record: TransactionRecord, login: LoginToken | None, text_sha256: bytes, catalog: Catalog
) -> None:
    """Raises `Refused` (STATEMENT_ID_USED) where a write transaction is an INSERT of another text or user. Of other
    appends, and by records of older versions, nothing is compared."""
    if not record.text_sha256:
        return
    origin = Origin(user=record.user, login=record.login, text="", text_sha256=record.text_sha256)
    check_same_asker(origin, None if login is None else hash_login(login), catalog)
    if text_sha256 != origin.text_sha256:
        raise other_statement()


def hears_text(origin: Origin, login: bytes | None, catalog: Catalog) -> bool:
    """Whether a login that asks for a statement's outcome gets its text too. Raises `Forbidden` and `Unauthenticated`
    if it gets neither."""
    if not catalog.users:
        return True
    if origin.user is None and origin.login is None:
        return False
    if origin.is_of(login, catalog):
        return True
    try:
        check_administrator(catalog, login)
    except Forbidden as error:
        text = "only the user who ran a statement and administrators may ask for its outcome"
        raise Forbidden(text, hint=error.hint) from error
    return True


def check_statement_id(statement: StatementId) -> None:
    """Raises `BadStatement` unless the id has the form that clients draw. Questions have an id too, and hold it while
    they wait."""
    if not is_hex_128(statement):
        raise BadStatement("a statement id is 128 bits in hex", hint="draw a random one per statement")


def other_statement() -> Refused:
    """The error for an id that was used for another statement."""
    return _id_used("this statement id was used for another statement")


def _id_used(text: str) -> Refused:
    return Refused(text, code=ErrorCode.STATEMENT_ID_USED, hint="nothing changed; use a new id for each statement")
