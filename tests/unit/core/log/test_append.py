"""The life of an append: each row of its table, then all that a store and another leader can do to it."""

import copy
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from leasehold.core.log.append import FINAL, Append, AppendState
from leasehold.core.log.entry import BEGINNING
from leasehold.core.words.records import LogEntry, LogPosition
from tests.unit.core.log.log_words import drafted, writing

ENTRY, NEXT = drafted(writing(1), writing(2))
OTHER, OTHERS_NEXT = drafted(writing(1), writing(2), first_id=200)


def sending() -> Append:
    return Append(ENTRY.entry)


def looking() -> Append:
    append = sending()
    append.unanswered()
    return append


def looking_after_a_refusal() -> Append:
    append = looking()
    append.head_is(BEGINNING)
    append.answered(done=False)
    return append


def reading() -> Append:
    append = looking()
    append.head_is(NEXT.position)
    return append


def test_what_the_store_did_is_appended():
    append = sending()
    assert append.state is AppendState.SENDING
    append.answered(done=True)
    assert append.state is AppendState.APPENDED


def test_what_the_store_declined_is_not_appended_if_every_try_was_answered():
    append = sending()
    append.answered(done=False)
    assert append.state is AppendState.NOT_APPENDED


def test_a_refusal_after_a_try_without_an_answer_says_nothing():
    assert looking_after_a_refusal().state is AppendState.LOOKING


def test_without_an_answer_the_head_is_read():
    append = looking()
    assert (append.state, append.is_unsure) == (AppendState.LOOKING, True)


def test_the_same_entry_is_sent_again_while_the_head_is_the_one_before():
    append = looking()
    append.head_is(BEGINNING)
    assert append.state is AppendState.SENDING
    append.answered(done=True)
    assert append.state is AppendState.APPENDED


def test_a_refusal_under_an_unmoved_head_means_another_term():
    append = looking_after_a_refusal()
    append.head_is(BEGINNING)
    assert append.state is AppendState.NOT_APPENDED


@pytest.mark.parametrize("append", [looking(), looking_after_a_refusal()])
def test_a_head_of_this_number_tells_by_its_id(append):
    ours, theirs = copy.copy(append), copy.copy(append)
    ours.head_is(ENTRY.position)
    assert ours.state is AppendState.APPENDED
    theirs.head_is(OTHER.position)
    assert theirs.state is AppendState.NOT_APPENDED


@pytest.mark.parametrize("append", [looking(), looking_after_a_refusal()])
def test_beyond_a_later_head_the_entry_itself_is_read(append):
    append = copy.copy(append)
    append.head_is(NEXT.position)
    assert append.state is AppendState.READING


def test_the_entry_of_this_number_tells_by_its_id():
    for found, outcome in (
        (ENTRY.entry, AppendState.APPENDED),
        (OTHER.entry, AppendState.NOT_APPENDED),
        (None, AppendState.UNKNOWN),
    ):
        append = reading()
        append.entry_is(found)
        assert append.state is outcome


@pytest.mark.parametrize("append", [looking(), reading()])
def test_a_question_without_an_answer_is_asked_again(append):
    append = copy.copy(append)
    before = append.state
    append.unanswered()
    assert append.state is before


def test_what_nobody_asked_is_refused():
    for append, event in (
        (looking(), lambda one: one.answered(done=True)),
        (reading(), lambda one: one.answered(done=False)),
        (sending(), lambda one: one.head_is(BEGINNING)),
        (reading(), lambda one: one.head_is(BEGINNING)),
        (sending(), lambda one: one.entry_is(None)),
        (looking(), lambda one: one.entry_is(None)),
    ):
        before = dict(vars(append))
        with pytest.raises(AssertionError):
            event(append)
        assert vars(append) == before


class World(NamedTuple):
    """The log beyond the head that the append was decided on, and what can still happen to it."""

    fenced: bool
    log: tuple[LogEntry, ...] = ()
    trimmed: bool = False
    other_term: bool = False
    under_way: bool = False
    """A try that was sent has not reached the store. It may at any time, or never."""

    @property
    def head(self) -> LogPosition:
        made = {one.entry.id: one.position for one in (ENTRY, NEXT, OTHER, OTHERS_NEXT)}
        return made[self.log[-1].id] if self.log else BEGINNING

    @property
    def entry(self) -> LogEntry | None:
        return None if self.trimmed else self.log[0]

    @property
    def takes_ours(self) -> bool:
        return not self.log and not (self.fenced and self.other_term)

    def with_ours(self) -> "World":
        return self._replace(log=(ENTRY.entry,)) if self.takes_ours else self

    def later(self) -> "Iterator[World]":
        """What others may do now."""
        if self.under_way:
            yield self.with_ours()
        yield self._replace(other_term=True)
        if not self.log and (self.other_term or not self.fenced):
            yield self._replace(log=(OTHER.entry,))
        if len(self.log) == 1:
            after = NEXT if self.log[0] is ENTRY.entry else OTHERS_NEXT
            yield self._replace(log=(self.log[0], after.entry))
        if len(self.log) == 2:
            yield self._replace(trimmed=True)


def steps(append: Append, world: World) -> Iterator[tuple[Append, World]]:
    """What may become of the request that the append asks for now; the answered one first."""

    def stepped(event: str, *args: object, after: World = world, **kwargs: object) -> tuple[Append, World]:
        copied = copy.copy(append)
        getattr(copied, event)(*args, **kwargs)
        return copied, after

    match append.state:
        case AppendState.SENDING:
            yield stepped("answered", done=world.takes_ours, after=world.with_ours())
            yield stepped("unanswered", after=world.with_ours())
            yield stepped("unanswered", after=world._replace(under_way=True))
            yield stepped("unanswered")
        case AppendState.LOOKING:
            yield stepped("head_is", world.head)
            yield stepped("unanswered")
        case _:
            yield stepped("entry_is", world.entry)
            yield stepped("unanswered")


def key(append: Append, world: World) -> object:
    return tuple(sorted(vars(append).items(), key=lambda one: one[0])), world


def all_worlds_after(world: World) -> set[World]:
    found, todo = {world}, [world]
    while todo:
        for one in todo.pop().later():
            if one not in found:
                found.add(one)
                todo.append(one)
    return found


@pytest.mark.parametrize("fenced", [True, False])
def test_no_store_and_no_other_leader_makes_it_answer_wrongly_or_wait_for_ever(fenced):
    """Every order of events, however long: tries that happen now, later, never, and those of others between them."""
    begin = sending(), World(fenced)
    seen, todo = {key(*begin)}, [begin]
    outcomes = set()
    while todo:
        append, world = todo.pop()
        if append.state in FINAL:
            outcomes.add(append.state)
            match append.state:
                case AppendState.APPENDED:
                    assert ENTRY.entry in world.log
                case AppendState.NOT_APPENDED:
                    assert not any(ENTRY.entry in later.log for later in all_worlds_after(world))
                case _:
                    assert world.trimmed
            continue
        assert is_known_soon(append, world)
        following = [*steps(append, world), *((append, later) for later in world.later())]
        for one in following:
            if key(*one) not in seen:
                seen.add(key(*one))
                todo.append(one)
    assert outcomes == FINAL
    assert len(seen) > 60


def is_known_soon(append: Append, world: World) -> bool:
    """Whether a store that answers, and leaves nothing under way, ends the append within five requests."""
    for _ in range(5):
        append, world = next(steps(append, world))
        if append.state in FINAL:
            return True
    return False
