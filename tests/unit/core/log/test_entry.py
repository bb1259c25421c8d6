"""Entries: what one names of all before it, and what is refused as not the next one."""

import hashlib

import msgspec
import pytest

from leasehold.core.log.entry import BEGINNING, DoesNotFollow, draft, follow, next_chain, parts_of, position_of
from leasehold.core.words.codec import encode
from leasehold.core.words.records import LogBody, LogPosition
from leasehold.errors import Corrupt
from leasehold.ids import Term
from tests.unit.core.log.log_words import drafted, entry_id, writing


def test_an_entry_names_what_is_before_it_and_what_it_does():
    body = writing(1, 2)
    made = draft(BEGINNING, entry_id(7), Term(3), body)
    assert made.body == encode(body)
    assert (made.entry.number, made.entry.id, made.entry.term) == (1, entry_id(7), 3)
    assert made.entry.before == BEGINNING.chain == bytes(32)
    assert made.entry.body_hash == hashlib.sha256(made.body).digest()
    assert (made.entry.body, made.entry.parts) == (b"", 0)
    assert made.position == LogPosition(
        number=1, id=entry_id(7), chain=next_chain(made.entry), revision=2, log_bytes=len(made.body)
    )
    assert made.position == position_of(made.entry)


def test_a_compaction_takes_no_revision():
    first, second, third = drafted(writing(1, 2, 3), writing(minimum=2), writing(4))
    assert (second.position.number, second.position.revision) == (2, 3)
    assert (third.position.number, third.position.revision) == (3, 4)
    assert third.position.log_bytes == sum(len(one.body) for one in (first, second, third))


def test_a_replica_follows_from_the_beginning_to_the_head():
    made = drafted(writing(1), writing(2, 3), writing(minimum=2), writing(4))
    position = BEGINNING
    for one in made:
        position, body = follow(position, one.entry, one.body)
        assert (position, encode(body)) == (one.position, one.body)
    assert position == made[-1].position


def test_a_replica_goes_on_from_the_position_of_any_entry():
    made = drafted(writing(1), writing(2, 3, 4), writing(5))
    _, body = follow(position_of(made[0].entry), made[1].entry, made[1].body)
    assert [one.revision for one in body.transactions] == [2, 3, 4], "a checkpoint at 3 begins before this entry"


@pytest.mark.parametrize("field", ["before", "number", "term", "id", "body_hash"])
def test_the_chain_covers_all_that_an_entry_says(field):
    (made,) = drafted(writing(1))
    other = {"before": b"x" * 32, "number": 2, "term": Term(4), "id": entry_id(9), "body_hash": b"y" * 32}
    assert next_chain(msgspec.structs.replace(made.entry, **{field: other[field]})) != made.position.chain


def test_where_the_body_lies_changes_nothing():
    (made,) = drafted(writing(1))
    assert next_chain(msgspec.structs.replace(made.entry, body=made.body)) == made.position.chain
    assert next_chain(msgspec.structs.replace(made.entry, parts=3)) == made.position.chain


def test_another_number_does_not_follow():
    first, second, third = drafted(writing(1), writing(2), writing(3))
    for after, one in ((first, third), (second, second), (second, first)):
        with pytest.raises(DoesNotFollow, match="does not follow entry"):
            follow(after.position, one.entry, one.body)


def test_an_entry_of_another_way_does_not_follow():
    (ours,) = drafted(writing(1))
    theirs, next_of_theirs = drafted(writing(1), writing(2), first_id=200)
    assert ours.position.revision == theirs.position.revision
    with pytest.raises(DoesNotFollow, match="entry 2 of the log does not follow entry 1"):
        follow(ours.position, next_of_theirs.entry, next_of_theirs.body)


def test_a_damaged_body_does_not_follow():
    (made,) = drafted(writing(1))
    for damaged in (made.body + b"x", made.body[:-1], b""):
        with pytest.raises(DoesNotFollow, match="entry 1 of the log is damaged"):
            follow(BEGINNING, made.entry, damaged)


@pytest.mark.parametrize("revisions", [(2,), (1, 3), (2, 1), (1, 1), (0,)])
def test_revisions_with_a_gap_or_a_repeat_do_not_follow(revisions):
    (made,) = drafted(writing(*revisions))
    with pytest.raises(DoesNotFollow, match="does not go on from revision 0"):
        follow(BEGINNING, made.entry, made.body)


@pytest.mark.parametrize("wrong", [{"revision": 2}, {"revision": 0}, {"log_bytes": 1}])
def test_an_entry_that_counts_wrong_does_not_follow(wrong):
    (made,) = drafted(writing(1))
    with pytest.raises(DoesNotFollow, match="does not go on from revision 0"):
        follow(BEGINNING, msgspec.structs.replace(made.entry, **wrong), made.body)


def test_a_body_that_is_none_is_corrupt():
    blob = encode(BEGINNING)
    entry = msgspec.structs.replace(
        draft(BEGINNING, entry_id(1), Term(1), LogBody()).entry, body_hash=hashlib.sha256(blob).digest()
    )
    with pytest.raises(Corrupt, match="LogBody"):
        follow(BEGINNING, entry, blob)


@pytest.mark.parametrize("size", [1, 9, 10, 11, 20, 25])
def test_parts_make_the_body_again(size):
    body = bytes(range(size))
    parts = parts_of(body, 10)
    assert b"".join(parts) == body
    assert [len(part) for part in parts] == [10] * (size // 10) + ([size % 10] if size % 10 else [])
