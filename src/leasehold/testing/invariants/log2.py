"""INV-LOG-2: an acknowledged transaction is in the log exactly once, at the revision in its answer.

No entry takes the place of another. A leader's transaction is known by the lineage that it writes: none is in the log
twice, and none that was answered as not done under a term is in the log of that term, then or later. A later term may
do the very same on the same lineage. While a coordinator leads, it knows what becomes of a transaction.
"""

from typing import Final

from leasehold.core.words import keys
from leasehold.core.words.operations import Change, LedBy, Txn
from leasehold.ids import Revision, Term
from leasehold.testing.log_news import Acknowledged, EntryAppended, LeftUnknown
from leasehold.testing.oracle import Oracle, first_wrong

HEARS: Final = frozenset({Acknowledged, EntryAppended, LeftUnknown})


class LoggedTransactions:
    """What the log has done, and what its callers were told that it had not."""

    def __init__(self) -> None:
        self.changes: dict[Revision, tuple[Change, ...]] = {}
        self.written: dict[bytes, tuple[Revision, Term]] = {}
        """The revision and the term of each lineage."""
        self.declined: set[tuple[bytes, Term]] = set()


def check(oracle: Oracle) -> str | None:
    known = oracle.recall(LoggedTransactions)
    wrong = first_wrong(_appended(known, one) for one in oracle.of(EntryAppended))
    for one in oracle.of(LeftUnknown):
        wrong = wrong or f"{one.name} told that a transaction is unknown, though its leadership lasts"
    return wrong or first_wrong(_told(known, one) for one in oracle.of(Acknowledged))


def _appended(known: LoggedTransactions, news: EntryAppended) -> str | None:
    entry = news.entry
    if not news.follows:
        return f"entry {entry.number} of term {entry.term} does not follow from the log before it"
    for one in news.body.transactions:
        known.changes[one.revision] = one.changes
        lineage = _lineage(one.changes)
        if lineage is None:
            continue
        if lineage in known.written:
            return f"revision {one.revision} does again what revision {known.written[lineage][0]} has done"
        if (lineage, entry.term) in known.declined:
            return f"revision {one.revision} contains a transaction that was answered as not done"
        known.written[lineage] = one.revision, entry.term
    return None


def _told(known: LoggedTransactions, news: Acknowledged) -> str | None:
    result, puts = news.result, {one.key: one.value for one in news.txn.then if one.value is not None}
    if result.succeeded:
        logged = {one.key: one.value for one in known.changes.get(result.revision, ())}
        if puts and (not puts.items() <= logged.items() or len(logged) > len(news.txn.then)):
            return f"{news.name} told revision {result.revision} of a transaction which the log does not have there"
        return None
    lineage, term = _lineage(news.txn.then), _term(news.txn)
    if lineage is None or term is None:
        return None
    revision, of_term = known.written.get(lineage, (Revision(0), Term(0)))
    if of_term == term:
        return f"{news.name} told that a transaction is not done, which is revision {revision}"
    known.declined.add((lineage, term))
    return None


def _lineage(changes: tuple[Change, ...]) -> bytes | None:
    return next((one.value for one in changes if one.key == keys.LINEAGE), None)


def _term(txn: Txn) -> Term | None:
    return next((one.term for one in txn.compares if isinstance(one, LedBy)), None)
