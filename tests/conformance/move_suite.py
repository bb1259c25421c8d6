"""What every move of a meta storage must do. A pair of places subclasses `MoveSuite`."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError
from leasehold.testing.requests import RequestFate, undisturbed
from tests.backup_words import commit, database
from tests.conformance.move_words import (
    FilePlace,
    MemoryLogPlace,
    Place,
    coordinator_error,
    facts,
    moved,
    opened,
    refusal,
)


class MoveSuite:
    """Moves from `source`, which holds a cluster, to the empty `target`."""

    @pytest.fixture
    async def source(self, tmp_path: Path) -> Place:
        raise NotImplementedError

    @pytest.fixture
    def target(self, tmp_path: Path) -> Place:
        raise NotImplementedError

    @pytest.fixture
    def other(self, tmp_path: Path) -> Place:
        """Another target."""
        raise NotImplementedError

    async def test_all_goes_on_as_it_was(self, source: Place, target: Place) -> None:
        async with opened(source) as storage:
            before, leader = await facts(storage), await storage.leader()
            status = await storage.status()
        assert status.minimum < status.latest
        done = await moved(source, target)
        assert (done.revision, done.minimum) == (status.latest, status.minimum)
        assert (done.cluster.cluster_id, done.cluster.generation) == (status.cluster_id, 1)
        async with opened(target) as storage:
            assert await facts(storage) == before
            assert (await storage.leader()).holder == ""
            assert await storage.confirm() == status.latest
            leadership = await storage.campaign("c2")
            assert leadership.term == leader.term + 1
            await commit(storage, database(80))
            assert (await storage.status()).latest > status.latest
            now = await facts(storage)
        async with opened(target) as storage:
            assert await facts(storage) == now

    async def test_no_coordinator_starts_on_the_source(self, source: Place, target: Place) -> None:
        done = await moved(source, target)
        error = await coordinator_error(source)
        assert error is not None
        assert (error.code, error.exit_code) == (ErrorCode.META_MOVED, 3)
        assert f"has moved to {done.to}" in error.text
        assert done.to in error.hint

    async def test_what_has_moved_moves_no_more(self, source: Place, target: Place, other: Place) -> None:
        done = await moved(source, target)
        before = await source.content(), await target.content(), await other.content()
        for place in (target, other):
            error = await refusal(moved(source, place))
            assert (error.code, error.exit_code) == (ErrorCode.META_MOVED, 3)
            assert done.to in error.text
        assert (await source.content(), await target.content(), await other.content()) == before

    async def test_a_target_that_is_not_empty_stays_as_it_is(self, source: Place, target: Place) -> None:
        async with opened(target) as storage:
            await storage.campaign("c9")
        before = await source.content(), await target.content()
        error = await refusal(moved(source, target))
        assert (error.code, error.exit_code) == (ErrorCode.META_STORAGE_EXISTS, 3)
        assert (await source.content(), await target.content()) == before
        assert await coordinator_error(source) is None

    @pytest.fixture
    def like_other(self, tmp_path: Path) -> Place:
        """A place of the kind of `other`."""
        raise NotImplementedError

    @pytest.fixture
    def empty(self, tmp_path: Path) -> Place:
        """A place of the kind of `source`, with nothing in it."""
        raise NotImplementedError

    async def test_without_a_meta_storage_nothing_moves(self, other: Place, like_other: Place) -> None:
        before = await other.content()
        error = await refusal(moved(other, like_other))
        assert (error.code, error.exit_code) == (ErrorCode.NO_META_STORAGE, 3)
        assert await other.content() == before

    async def test_without_a_cluster_nothing_moves(self, empty: Place, target: Place) -> None:
        async with opened(empty) as storage:
            await storage.campaign("c1")
        before = await target.content()
        error = await refusal(moved(empty, target))
        assert (error.code, error.exit_code) == (ErrorCode.NOT_INITIALISED, 3)
        assert await target.content() == before
        assert await coordinator_error(empty) is None

    async def test_there_and_back_again(self, source: Place, target: Place, empty: Place) -> None:
        async with opened(source) as storage:
            first = await storage.leader()
        await moved(source, target)
        async with opened(target) as storage:
            await storage.campaign("c2")
            await commit(storage, database(81))
            before = await facts(storage)
        await moved(target, empty)
        async with opened(empty) as storage:
            assert await facts(storage) == before
            assert (await storage.campaign("c3")).term == first.term + 2
        error = await coordinator_error(target)
        assert error is not None
        assert error.code == ErrorCode.META_MOVED


class MoveFaultSuite(MoveSuite):
    """With a crash, or a lost request, at any point."""

    @pytest.mark.parametrize("fate", [RequestFate.LOST_BEFORE, RequestFate.LOST_AFTER])
    async def test_each_request_without_an_answer_is_sent_again(
        self, source: Place, target: Place, fate: RequestFate
    ) -> None:
        async with opened(source) as storage:
            before = await facts(storage)
        asked: Counter[str] = Counter()

        async def lost(request: str) -> RequestFate:
            asked[request] += 1
            return fate if asked[request] % 2 else RequestFate.ANSWERED

        logs = [place for place in (source, target) if isinstance(place, MemoryLogPlace)]
        for place in logs:
            place.before = lost
        await moved(source, target)
        for place in logs:
            place.before = undisturbed
        async with opened(target) as storage:
            assert await facts(storage) == before
        assert (await coordinator_error(source)).code == ErrorCode.META_MOVED

    async def test_a_crash_at_any_point_leaves_one_place_at_most_and_another_run_finishes(
        self, source: Place, target: Place, tmp_path: Path
    ) -> None:
        async with opened(source) as storage:
            expected = await facts(storage)
        left: list[tuple[Place, Place]] = []
        seen: list[object] = []

        def note() -> None:
            now = self.state(source), self.state(target)
            if now not in seen:
                seen.append(now)
                left.append((source.copy(tmp_path / f"s{len(left)}"), target.copy(tmp_path / f"t{len(left)}")))

        self.at_each_step(source, target, note)
        await moved(source, target)
        note()
        ended = list[tuple[bool, bool]]()
        for at, (one, other) in enumerate(left):
            fine = await self.usable(one, tmp_path / f"us{at}"), await self.usable(other, tmp_path / f"ut{at}")
            ended.append(fine)
            try:
                await moved(one, other)
            except LeaseholdError as error:
                assert error.code == ErrorCode.META_MOVED, error
                assert at == len(left) - 1, "only the last step ends the move"
            async with opened(other) as storage:
                assert await facts(storage) == expected
            assert (await coordinator_error(one)).code == ErrorCode.META_MOVED
        assert ended[0] == (True, False)
        assert ended[-1] == (False, True)
        assert (False, False) in ended, "between the mark and the beginning nobody leads"
        assert (True, True) not in ended
        assert ended == sorted(ended, key=[(True, False), (False, False), (False, True)].index)

    async def usable(self, place: Place, directory: Path) -> bool:
        """Whether a coordinator finds the cluster there."""
        try:
            async with opened(place.copy(directory)) as storage:
                return (await storage.status()).cluster_id is not None
        except LeaseholdError as error:
            assert error.code in {ErrorCode.META_MOVED, ErrorCode.META_UNFINISHED}, error
            return False

    def at_each_step(self, source: Place, target: Place, note: Callable[[], None]) -> None:
        """Has `note` called before and after each request to a store."""
        for place in (source, target):
            if isinstance(place, MemoryLogPlace):

                async def before(request: str) -> object:
                    note()
                    return await undisturbed(request)

                async def after(_request: str) -> None:
                    note()

                place.before, place.after = before, after

    def state(self, place: Place) -> object:
        """What a crash would leave, as far as it matters."""
        if isinstance(place, FilePlace):
            return {path.name: path.stat().st_size for path in place.directory.glob("*") if path.suffix != ".lock"}
        assert isinstance(place, MemoryLogPlace)
        return dict(place.kept.values)
