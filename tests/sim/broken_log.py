"""Histories that break the invariants of the log, made by hand."""

import msgspec

from leasehold.core.log.entry import BEGINNING, draft
from leasehold.core.words import keys
from leasehold.core.words.operations import Change, LedBy, Txn, TxnResult
from leasehold.core.words.records import LogBody, LogTransaction
from leasehold.testing.log_news import Acknowledged, EntryAppended, LeftUnknown, LogState, ReplicaMoved
from leasehold.testing.metastorage import MemoryStore
from tests.sim.broken_histories import BROKEN, breaks
from tests.sim.record_words import hex_128

__all__ = ["BROKEN"]


class ToldLog:
    """Tells of a log, by the book where nothing else is asked for."""

    def __init__(self, told):
        self.told = told
        self.position = BEGINNING
        self.store = MemoryStore()

    def append(self, lineage, *, term=1, newest_term=1, follows=True):
        """An entry with one transaction, which writes this lineage."""
        revision = self.position.revision + 1
        body = LogBody(transactions=(LogTransaction(revision, changes(lineage)),))
        made = draft(self.position, hex_128(revision), term, body)
        self.position = made.position
        self.store.apply(body)
        state = LogState.of(made.position, self.store)
        self.told.oracle.saw(
            EntryAppended(entry=made.entry, body=body, newest_term=newest_term, follows=follows, state=state)
        )
        self.told.step()
        return state

    def applied(self, state):
        self.told.oracle.saw(ReplicaMoved(name="c2", state=state))
        self.told.step()

    def answer(self, lineage, revision, *, succeeded=True, term=1):
        txn = Txn(compares=(LedBy(term),), then=changes(lineage))
        result = TxnResult(succeeded=succeeded, revision=revision)
        self.told.oracle.saw(Acknowledged(name="c1", txn=txn, result=result))
        self.told.step()


def changes(lineage):
    return (Change(b"a", lineage), Change(keys.LINEAGE, lineage))


def by_the_book(told):
    """Two leaders, whose replicas follow; the second does what the first one could not."""
    log = ToldLog(told)
    log.applied(log.append(b"1"))
    log.answer(b"1", 1)
    log.answer(b"2", 1, succeeded=False)
    log.applied(log.append(b"2", term=2, newest_term=2))
    log.answer(b"2", 2, term=2)
    return log


@breaks("INV-LOG-1")
def a_replica_with_another_content(told):
    log = by_the_book(told)
    log.applied(log.append(b"3", term=2, newest_term=2)._replace(digest=1))


@breaks("INV-LOG-1")
def a_replica_with_another_lineage(told):
    log = by_the_book(told)
    log.applied(log.append(b"3", term=2, newest_term=2)._replace(lineage=b"4"))


@breaks("INV-LOG-1")
def a_replica_with_another_minimum(told):
    log = by_the_book(told)
    log.applied(log.append(b"3", term=2, newest_term=2)._replace(minimum=0))


@breaks("INV-LOG-1")
def a_replica_that_is_ahead_of_the_log(told):
    log = by_the_book(told)
    state = log.append(b"3", term=2, newest_term=2)
    log.applied(state._replace(position=msgspec.structs.replace(state.position, number=4)))


@breaks("INV-LOG-2")
def an_entry_in_the_place_of_another(told):
    by_the_book(told).append(b"3", term=2, newest_term=2, follows=False)


@breaks("INV-LOG-2")
def a_transaction_that_is_done_twice(told):
    by_the_book(told).append(b"2", term=2, newest_term=2)


@breaks("INV-LOG-2")
def an_answer_before_the_append(told):
    by_the_book(told).answer(b"3", 3, term=2)


@breaks("INV-LOG-2")
def an_answer_with_another_revision(told):
    log = by_the_book(told)
    log.append(b"3", term=2, newest_term=2)
    log.answer(b"3", 2, term=2)


@breaks("INV-LOG-2")
def a_transaction_that_is_done_and_called_not_done(told):
    log = by_the_book(told)
    log.append(b"3", term=2, newest_term=2)
    log.answer(b"3", 3, succeeded=False, term=2)


@breaks("INV-LOG-2")
def a_transaction_that_is_called_not_done_and_done_later(told):
    log = by_the_book(told)
    log.answer(b"3", 2, succeeded=False, term=2)
    log.append(b"3", term=2, newest_term=2)


@breaks("INV-LOG-2")
def an_unknown_outcome_while_the_leadership_lasts(told):
    by_the_book(told)
    told.oracle.saw(LeftUnknown(name="c1"))
    told.step()


@breaks("INV-LOG-3")
def an_entry_of_a_term_that_has_ended(told):
    by_the_book(told).append(b"3", term=1, newest_term=2)


@breaks("INV-LOG-3")
def an_entry_of_nobody_who_leads(told):
    by_the_book(told).append(b"3", term=0, newest_term=2)
