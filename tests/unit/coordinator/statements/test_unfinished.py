"""The ends of statements that wrote nothing."""

import secrets
import tracemalloc

import pytest

from leasehold.coordinator.statements.unfinished import Unrecorded
from leasehold.core.ddl.origin import Origin, beginning, hash_text
from leasehold.core.ddl.receipts import nothing_to_do
from leasehold.errors import Forbidden
from leasehold.ids import Revision, StatementId
from leasehold.limits.statements import UNRECORDED_TEXT_BYTES_KEPT

LONG = "DROP TABLE d.t /*\N{GRINNING FACE}" + "x" * 10_000 + "*/"
KEPT = beginning(LONG, UNRECORDED_TEXT_BYTES_KEPT)
ID = StatementId("1" * 32)
ENDS_BYTES_MAX = 1_500
"""Of each end: its error or receipt, and the hashes of its login and text."""


def origin() -> Origin:
    return Origin(user="b", login=secrets.token_bytes(32), text=beginning(LONG), text_sha256=hash_text(LONG))


def note_receipt(ends: Unrecorded, statement: StatementId) -> None:
    told = nothing_to_do(statement, beginning(LONG), revision=Revision(1), elapsed_ns=1, bound_ns=1, waited=None)
    ends.note(statement, origin(), told)


def note_refusal(ends: Unrecorded, statement: StatementId) -> None:
    ends.refused(statement, origin(), Forbidden("user b has no right", hint="ask for it"))


def test_a_receipt_is_repeated_with_little_of_its_text() -> None:
    ends = Unrecorded()
    note_receipt(ends, ID)
    told, found = ends.told(ID), ends.origin(ID)
    assert told is not None
    assert found is not None
    assert told.text == found.text == KEPT
    assert found.has_text(LONG)
    assert not found.has_text(LONG + "x")


def test_a_refusal_is_repeated() -> None:
    ends = Unrecorded()
    note_refusal(ends, ID)
    with pytest.raises(Forbidden, match="user b has no right"):
        ends.told(ID)
    found = ends.origin(ID)
    assert found is not None
    assert found.text == KEPT


@pytest.mark.parametrize("note", [note_receipt, note_refusal])
def test_ends_take_little_memory_however_long_their_statements_were(note) -> None:
    ends = Unrecorded()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(500):
        note(ends, StatementId(secrets.token_hex(16)))
    taken = (tracemalloc.get_traced_memory()[0] - before) / 500
    tracemalloc.stop()
    assert taken < ENDS_BYTES_MAX
