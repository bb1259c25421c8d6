"""Entries and positions, for tests of the log."""

from leasehold.core.log.entry import BEGINNING, DraftEntry, draft
from leasehold.core.words.operations import Change
from leasehold.core.words.records import LogBody, LogPosition, LogTransaction
from leasehold.ids import EntryId, Revision, Term


def entry_id(number: int) -> EntryId:
    return EntryId(f"{number:032x}")


def writing(*revisions: int, value: bytes = b"v", minimum: int | None = None) -> LogBody:
    """A body of one transaction for each revision, each with a key of its own."""
    transactions = tuple(
        LogTransaction(Revision(one), (Change(b"key-%04d" % one, value + b"%d" % one),)) for one in revisions
    )
    return LogBody(transactions=transactions, minimum=None if minimum is None else Revision(minimum))


def drafted(*bodies: LogBody, after: LogPosition = BEGINNING, first_id: int = 100) -> list[DraftEntry]:
    """One entry for each body, each after the one before."""
    made: list[DraftEntry] = []
    for at, body in enumerate(bodies):
        made.append(draft(after, entry_id(first_id + at), Term(3), body))
        after = made[-1].position
    return made
