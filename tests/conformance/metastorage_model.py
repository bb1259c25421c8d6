"""Random histories of a meta storage against the simplest model there is: one dictionary per revision."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from leasehold.core.words.operations import (
    Change,
    Compare,
    Exists,
    KeyValue,
    Missing,
    ModifiedAt,
    RevisionChanges,
    Txn,
    TxnResult,
    ValueIs,
)
from leasehold.ids import Revision
from leasehold.metastorage.contract import Compacted, FutureRevision, MetaStorage
from tests.conformance.metastorage_suite import Place

KEYS = [b"a", b"a\x00", b"ab", b"b", b"c/1", b"c/2", b"\xff"]
VALUES = [b"", b"1", b"2"]
ENDS = [b"", *KEYS, b"\xff\xff"]

some_key = st.sampled_from(KEYS)
some_value = st.sampled_from(VALUES)
branches = st.dictionaries(some_key, st.none() | some_value, max_size=4).map(
    lambda chosen: tuple(Change(key, value) for key, value in chosen.items())
)
some_share = st.floats(min_value=0, max_value=1)


class Machine(RuleBasedStateMachine):
    """Holds one backend to the model; revisions are drawn as a share of those there are."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.states: list[dict[bytes, KeyValue]] = [{}]
        self.changes: list[RevisionChanges | None] = [None]
        self.minimum = 1
        self.storage: MetaStorage | None = None

    async def open(self) -> MetaStorage:
        raise NotImplementedError

    def run(self, awaitable):
        async def shell():
            return await awaitable

        return self.runner.run(shell())

    @property
    def newest(self) -> int:
        return len(self.states) - 1

    def drawn(self, share: float) -> Revision:
        """From one below MM to one beyond the newest."""
        lowest = self.minimum - 1
        return Revision(lowest + round(share * (self.newest + 1 - lowest)))

    @initialize()
    def begin(self) -> None:
        self.storage = self.run(self.open())

    # ------------------------------------------------------------ the model

    def holds(self, compare: Compare) -> bool:
        standing = self.states[-1].get(compare.key)
        if isinstance(compare, Exists):
            return standing is not None
        if isinstance(compare, Missing):
            return standing is None
        if isinstance(compare, ValueIs):
            return standing is not None and standing.value == compare.value
        return (standing.modified if standing else 0) == compare.revision

    def model_txn(self, txn: Txn) -> TxnResult:
        succeeded = all(self.holds(compare) for compare in txn.compares)
        state = dict(self.states[-1])
        revision = Revision(self.newest + 1)
        seen: list[Change] = []
        for change in txn.then if succeeded else txn.otherwise:
            standing = state.pop(change.key, None)
            if change.value is not None:
                state[change.key] = KeyValue(
                    key=change.key,
                    value=change.value,
                    created=standing.created if standing else revision,
                    modified=revision,
                    version=standing.version + 1 if standing else 1,
                )
            elif standing is None:
                continue
            seen.append(change)
        if seen:
            self.states.append(state)
            self.changes.append(RevisionChanges(revision, tuple(sorted(seen, key=lambda change: change.key))))
        return TxnResult(succeeded=succeeded, revision=Revision(self.newest))

    def model_replay(self, start: bytes, end: bytes, from_revision: int) -> list[RevisionChanges]:
        found: list[RevisionChanges] = []
        for batch in self.changes[from_revision:]:
            assert batch is not None
            within = tuple(change for change in batch.changes if start <= change.key < end)
            if within:
                found.append(RevisionChanges(batch.revision, within))
        return found

    def refusal(self, revision: Revision) -> type[Exception] | None:
        if revision < self.minimum:
            return Compacted
        return FutureRevision if revision > self.newest else None

    # ------------------------------------------------------------ the rules

    @rule(data=st.data(), then=branches, otherwise=branches)
    def txn(self, data: st.DataObject, then: tuple[Change, ...], otherwise: tuple[Change, ...]) -> None:
        compares = (
            some_key.map(Exists)
            | some_key.map(Missing)
            | st.builds(ValueIs, some_key, some_value)
            | st.builds(ModifiedAt, some_key, st.integers(0, self.newest + 1).map(Revision))
        )
        drawn = tuple(data.draw(st.lists(compares, max_size=2)))
        txn = Txn(compares=drawn, then=then, otherwise=otherwise)
        assert self.run(self.storage.txn(txn)) == self.model_txn(txn)

    @rule(group=st.lists(branches, min_size=2, max_size=6))
    def concurrent_txns(self, group: list[tuple[Change, ...]]) -> None:
        async def together() -> list[TxnResult]:
            return await asyncio.gather(*(self.storage.txn(Txn(then=branch)) for branch in group))

        # One loop starts them in this order, so a backend runs them in this order.
        assert self.run(together()) == [self.model_txn(Txn(then=branch)) for branch in group]

    @rule(key=some_key, share=some_share)
    def get(self, key: bytes, share: float) -> None:
        revision = self.drawn(share)
        refusal = self.refusal(revision)
        if refusal is None:
            assert self.run(self.storage.get(key, revision)) == self.states[revision].get(key)
        else:
            with pytest.raises(refusal):
                self.run(self.storage.get(key, revision))

    @rule(start=st.sampled_from(ENDS), end=st.sampled_from(ENDS), share=some_share, limit=st.integers(1, 4))
    def range(self, start: bytes, end: bytes, share: float, limit: int) -> None:
        revision = self.drawn(share)
        if self.refusal(revision) is not None:
            with pytest.raises(self.refusal(revision)):
                self.run(self.storage.range(start, end, revision=revision, limit=limit))
            return
        items: list[KeyValue] = []
        following: bytes | None = start
        while following is not None:
            page = self.run(self.storage.range(following, end, revision=revision, limit=limit))
            assert page.revision == revision
            assert len(page.items) <= limit
            items += page.items
            following = page.next_start
        state = self.states[revision]
        assert items == [state[key] for key in sorted(state) if start <= key < end]

    @rule(start=st.sampled_from(ENDS), end=st.sampled_from(ENDS), share=some_share)
    def replay(self, start: bytes, end: bytes, share: float) -> None:
        from_revision = self.drawn(share)

        async def take(count: int) -> list[RevisionChanges]:
            async with aclosing(self.storage.watch(start, end, from_revision)) as watch:
                return [await anext(watch) for _ in range(max(1, count))]

        if from_revision < self.minimum:
            with pytest.raises(Compacted):
                self.run(take(1))
            return
        expected = self.model_replay(start, end, from_revision)
        if expected:
            assert self.run(take(len(expected))) == expected

    @rule(share=some_share, then=branches)
    def replay_then_live(self, share: float, then: tuple[Change, ...]) -> None:
        from_revision = Revision(max(self.minimum, self.drawn(share)))
        before = len(self.model_replay(b"", b"\xff\xff", from_revision))
        written = self.model_txn(Txn(then=then))
        expected = self.model_replay(b"", b"\xff\xff", from_revision)

        async def follow() -> list[RevisionChanges]:
            async with aclosing(self.storage.watch(b"", b"\xff\xff", from_revision)) as watch:
                seen = [await anext(watch) for _ in range(before)]
                assert await self.storage.txn(Txn(then=then)) == written
                return seen + [await anext(watch) for _ in range(len(expected) - before)]

        assert self.run(follow()) == expected

    @rule(share=some_share)
    def compact(self, share: float) -> None:
        before = self.drawn(share)
        refusal = FutureRevision if before > self.newest else self.refusal(before)
        if refusal is not None:
            with pytest.raises(refusal):
                self.run(self.storage.compact(before))
        else:
            self.run(self.storage.compact(before))
            self.minimum = before

    @precondition(lambda self: self.newest > 0)
    @rule()
    def reopen(self) -> None:
        self.run(self.storage.close())
        self.storage = self.run(self.open())

    @invariant()
    def status_agrees(self) -> None:
        if self.storage is not None:
            assert self.run(self.storage.status()).minimum == self.minimum

    def teardown(self) -> None:
        if self.storage is not None:
            self.run(self.storage.close())
        self.runner.close()


def hold_to_the_model(place: Callable[[Path], Place], *, examples: int) -> None:
    """So many random histories, each of a store in a place of its own, in a new directory."""

    class Placed(Machine):
        def __init__(self) -> None:
            super().__init__()
            self.directory = Path(tempfile.mkdtemp(prefix="metastorage-model-"))
            self.place = place(self.directory)

        async def open(self) -> MetaStorage:
            return await self.place.open()

        def teardown(self) -> None:
            super().teardown()
            shutil.rmtree(self.directory)

    run_state_machine_as_test(
        Placed,
        settings=settings(
            max_examples=examples, stateful_step_count=30, deadline=None, derandomize=True, database=None
        ),
    )
