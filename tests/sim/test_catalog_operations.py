"""What is known of a statement, from its text and its answer."""

import pytest

from leasehold.core.words.messages import Receipt
from leasehold.core.words.messages.clients import SettledNode
from leasehold.core.words.records import Outcome
from leasehold.errors import Refused
from leasehold.testing.catalog_operations import CatalogAnswer, operations
from leasehold.testing.clients import ClientStatement
from leasehold.testing.linearizability import Violation, check
from tests.sim.record_words import hex_128

SETTLED = (SettledNode(node=1, how="applied", after_ns=1),)


def asked(text, from_ns, to_ns=0, heard=None):
    return ClientStatement(id=hex_128(from_ns), text=text, asked_ns=from_ns, answered_ns=to_ns, heard=heard)


def receipt(revision, outcome=Outcome.COMMITTED, settled=SETTLED):
    return Receipt(
        statement_id=hex_128(1),
        text="",
        revision=revision,
        outcome=outcome,
        elapsed_ns=1,
        bound_ns=1,
        settled=settled,
        pending=(),
        cleaning=(),
    )


def shows(from_ns, revision, *names, of=()):
    shown = frozenset(tuple(name.split(".")) for name in names)
    return CatalogAnswer(what="SHOW", asked_ns=from_ns, answered_ns=from_ns + 1, revision=revision, shown=shown, of=of)


CREATED = asked("CREATE TABLE D.T (a INT)", 1, 2, receipt(5))
RIGHT = {
    "a rename": [asked("ALTER TABLE d.t RENAME TO d.u", 3, 4, receipt(6)), shows(5, 6, "d.u")],
    "a drop that was rolled back": [
        asked("DROP TABLE d.t", 3, 9, receipt(None, Outcome.ROLLED_BACK, ())),
        shows(4, 6),
        shows(10, 7, "d.t"),
    ],
    "a database that is dropped with its tables": [
        asked("DROP DATABASE d CASCADE", 3, 4, receipt(6)),
        shows(5, 6),
    ],
    "a database of which nothing is known": [
        asked("DROP DATABASE d CASCADE", 3),
        shows(5, 6),
        shows(7, 7, "d.t"),
    ],
    "nothing to do": [asked("CREATE TABLE IF NOT EXISTS d.t (a INT)", 3, 4, receipt(0, settled=()))],
    "a refusal": [asked("DROP TABLE d.t", 3, 4, Refused("in use", hint="wait")), shows(5, 6, "d.t")],
    "a column": [
        asked("ALTER TABLE d.t ADD COLUMN c INT", 3, 4, receipt(6)),
        shows(5, 6, "d.t.a", "d.t.c", of=("d", "t")),
        asked("ALTER TABLE d.t DROP COLUMN c", 7, 8, receipt(7)),
        shows(9, 8, "d.t.a", of=("d", "t")),
    ],
}
WRONG = {
    "a rename that leaves the old name": [
        asked("ALTER TABLE d.t RENAME TO d.u", 3, 4, receipt(6)),
        shows(5, 6, "d.t", "d.u"),
    ],
    "a drop that is seen after it was rolled back": [
        asked("DROP TABLE d.t", 3, 4, receipt(None, Outcome.ROLLED_BACK, ())),
        shows(5, 6),
    ],
    "a table in a dropped database": [asked("DROP DATABASE d CASCADE", 3, 4, receipt(6)), shows(5, 6, "d.t")],
    "a refusal that is seen": [asked("DROP TABLE d.t", 3, 4, Refused("in use", hint="wait")), shows(5, 6)],
    "an answer from before any statement": [asked("CREATE DATABASE e", 3, 4, receipt(6)), shows(5, 5, "d.t")],
    "a column that is missing": [
        asked("ALTER TABLE d.t ADD COLUMN c INT", 3, 4, receipt(6)),
        shows(5, 6, "d.t.a", of=("d", "t")),
    ],
}


def judged(told):
    statements = [CREATED, *(one for one in told if isinstance(one, ClientStatement))]
    answers = [one for one in told if isinstance(one, CatalogAnswer)]
    return check(operations(statements, answers, columns_of=frozenset({("d", "t")})))


@pytest.mark.parametrize("name", RIGHT)
def test_an_answer_that_fits_is_accepted(name):
    assert judged(RIGHT[name]) is None


@pytest.mark.parametrize("name", WRONG)
def test_an_answer_that_does_not_fit_is_a_violation(name):
    assert isinstance(judged(WRONG[name]), Violation)
