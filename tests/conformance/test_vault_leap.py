"""What every vault promises of a leap: a snapshot takes the projection's place whole or not at all."""

from collections.abc import Sequence
from functools import reduce
from random import Random

import pytest

from leasehold.core.words.digest import digest_bytes, item_digest
from leasehold.core.words.operations import Change, RevisionChanges, StoredProjection
from leasehold.errors import Refused
from leasehold.ids import LineageHash, Revision
from leasehold.wire.ports import Vault
from tests.conformance.test_vault import CLAIMING, OTHER_HASH, SOME_HASH, Open, open_vault, refusal, revision

__all__ = ["open_vault"]

SNAPSHOT = (Change(b"b", b"2"), Change(b"c", b"new"), Change(b"d", b""))


def digest_of(items: Sequence[Change]) -> bytes:
    return digest_bytes(reduce(lambda digest, one: digest ^ item_digest(one.key, one.value or b""), items, 0))


async def stage(vault: Vault, items: Sequence[Change], page: int = 2) -> bytes:
    for start in range(0, len(items), page):
        await vault.stage(items[start : start + page], first=start == 0)
    return digest_of(items)


async def filled(open_vault: Open) -> Vault:
    vault = await open_vault()
    await vault.write_identity(CLAIMING)
    await vault.apply((revision(5, a=b"1", b=b"2", c=b"3"),), SOME_HASH)
    return vault


def stored(number: int, lineage: LineageHash, items: tuple[Change, ...]) -> StoredProjection:
    return StoredProjection(applied=Revision(number), lineage=lineage, items=items)


@pytest.mark.parametrize("page", [1, 2, 3])
async def test_R2_a_leap_deletes_what_the_snapshot_lacks_and_tells_what_differs(open_vault: Open, page: int) -> None:
    vault = await filled(open_vault)
    digest = await stage(vault, SNAPSHOT, page)
    assert (await vault.projection()).applied == 5
    changes = await vault.leap(Revision(9), OTHER_HASH, digest)
    assert changes == (Change(b"a", None), Change(b"c", b"new"), Change(b"d", b""))
    assert await vault.projection() == stored(9, OTHER_HASH, SNAPSHOT)
    assert await vault.sync() == 9
    await vault.close()
    vault = await open_vault()
    assert await vault.projection() == stored(9, OTHER_HASH, SNAPSHOT)
    await vault.apply((revision(10, a=b"4", d=None),), SOME_HASH)
    expected = (Change(b"a", b"4"), *SNAPSHOT[:2])
    assert await vault.projection() == stored(10, SOME_HASH, expected)
    await vault.close()


async def test_a_new_vault_leaps(open_vault: Open) -> None:
    vault = await open_vault()
    assert await vault.leap(Revision(9), OTHER_HASH, await stage(vault, SNAPSHOT)) == SNAPSHOT
    assert await vault.projection() == stored(9, OTHER_HASH, SNAPSHOT)
    await vault.close()


async def test_an_empty_snapshot_empties_the_projection(open_vault: Open) -> None:
    vault = await filled(open_vault)
    await vault.stage((), first=True)
    changes = await vault.leap(Revision(6), OTHER_HASH, bytes(32))
    assert changes == (Change(b"a", None), Change(b"b", None), Change(b"c", None))
    assert await vault.projection() == stored(6, OTHER_HASH, ())
    await vault.close()


async def test_other_items_than_were_sent_are_refused_and_change_nothing(open_vault: Open) -> None:
    vault = await filled(open_vault)
    before = await vault.projection()
    await stage(vault, SNAPSHOT[:2])
    error = await refusal(vault.leap(Revision(9), OTHER_HASH, digest_of(SNAPSHOT)))
    assert isinstance(error, Refused)
    assert error.code == "BAD_SNAPSHOT"
    assert error.hint
    assert await vault.projection() == before
    # What was staged is there still: the page that was missing completes it.
    await vault.stage(SNAPSHOT[2:], first=False)
    await vault.leap(Revision(9), OTHER_HASH, digest_of(SNAPSHOT))
    assert await vault.projection() == stored(9, OTHER_HASH, SNAPSHOT)
    await vault.close()


@pytest.mark.parametrize(
    "page",
    [(Change(b"c", b"3"),), (Change(b"a", b"3"),), (Change(b"y", b""), Change(b"x", b"")), (Change(b"d", None),)],
    ids=["twice", "back", "falling", "delete"],
)
async def test_a_page_out_of_order_is_refused_and_the_pages_before_it_stay(
    open_vault: Open, page: tuple[Change, ...]
) -> None:
    vault = await filled(open_vault)
    await vault.stage(SNAPSHOT[:2], first=True)
    error = await refusal(vault.stage(page, first=False))
    assert isinstance(error, Refused)
    assert error.code == "BAD_SNAPSHOT"
    await vault.stage(SNAPSHOT[2:], first=False)
    await vault.leap(Revision(9), OTHER_HASH, digest_of(SNAPSHOT))
    assert await vault.projection() == stored(9, OTHER_HASH, SNAPSHOT)
    await vault.close()


async def test_the_first_page_forgets_what_was_staged_before(open_vault: Open) -> None:
    vault = await filled(open_vault)
    await vault.stage((Change(b"x", b"1"), Change(b"z", b"2")), first=True)
    await vault.leap(Revision(9), OTHER_HASH, await stage(vault, SNAPSHOT))
    assert await vault.projection() == stored(9, OTHER_HASH, SNAPSHOT)
    error = await refusal(vault.leap(Revision(10), OTHER_HASH, digest_of(SNAPSHOT)))
    assert error.code == "BAD_SNAPSHOT"
    await vault.close()


@pytest.mark.parametrize(
    ("number", "lineage"), [(4, SOME_HASH), (4, OTHER_HASH), (5, OTHER_HASH)], ids=["back", "back-other", "same-other"]
)
async def test_a_leap_back_or_to_another_history_is_refused(
    open_vault: Open, number: int, lineage: LineageHash
) -> None:
    vault = await filled(open_vault)
    before = await vault.projection()
    error = await refusal(vault.leap(Revision(number), lineage, await stage(vault, SNAPSHOT)))
    assert isinstance(error, Refused)
    assert error.code == "NOT_ASCENDING"
    assert await vault.projection() == before
    await vault.close()


async def test_a_leap_asked_for_again_changes_nothing(open_vault: Open) -> None:
    vault = await filled(open_vault)
    await vault.leap(Revision(9), OTHER_HASH, await stage(vault, SNAPSHOT))
    assert await vault.leap(Revision(9), OTHER_HASH, await stage(vault, SNAPSHOT)) == ()
    assert await vault.projection() == stored(9, OTHER_HASH, SNAPSHOT)
    other = (*SNAPSHOT, Change(b"e", b""))
    error = await refusal(vault.leap(Revision(9), OTHER_HASH, await stage(vault, other)))
    assert error.code == "BAD_SNAPSHOT"
    assert await vault.projection() == stored(9, OTHER_HASH, SNAPSHOT)
    await vault.close()


async def test_what_was_staged_ends_with_the_process(open_vault: Open) -> None:
    vault = await filled(open_vault)
    before = await vault.projection()
    digest = await stage(vault, SNAPSHOT)
    await vault.close()
    vault = await open_vault()
    assert await vault.projection() == before
    assert (await refusal(vault.leap(Revision(9), OTHER_HASH, digest))).code == "BAD_SNAPSHOT"
    assert await vault.projection() == before
    await vault.close()


KEYS = [bytes([one]) for one in b"abcdefgh"]


def some(random: Random, values: bytes) -> dict[bytes, bytes]:
    """Some of the keys, each with one of few values, so that many are the same elsewhere."""
    return {key: bytes([random.choice(values)]) for key in KEYS if random.random() < 0.7}


def difference(before: dict[bytes, bytes], after: dict[bytes, bytes]) -> tuple[Change, ...]:
    differing = (key for key in KEYS if before.get(key) != after.get(key))
    return tuple(Change(key, after.get(key)) for key in differing)


@pytest.mark.parametrize("seed", range(12))
async def test_R2_revisions_applied_between_the_pages_do_not_show_after_the_leap(open_vault: Open, seed: int) -> None:
    random = Random(seed)
    vault = await filled(open_vault)
    held = {one.key: one.value or b"" for one in (await vault.projection()).items}
    number = 5
    for _ in range(10):
        snapshot = some(random, b"12")
        items = [Change(key, value) for key, value in snapshot.items()]
        await vault.stage((), first=True)
        while items or random.random() < 0.3:
            size = random.randint(0, 3)
            await vault.stage(items[:size], first=False)
            items = items[size:]
            if random.random() < 0.7:
                number += 1
                after = held | some(random, b"12")
                after = {key: value for key, value in after.items() if random.random() < 0.8}
                await vault.apply((RevisionChanges(Revision(number), difference(held, after)),), SOME_HASH)
                held = after
        number += 1
        whole = tuple(Change(key, value) for key, value in snapshot.items())
        assert await vault.leap(Revision(number), OTHER_HASH, digest_of(whole)) == difference(held, snapshot)
        assert await vault.projection() == stored(number, OTHER_HASH, whole)
        held = snapshot
    await vault.close()
    vault = await open_vault()
    assert await vault.verify(1000)
    await vault.close()


async def test_a_replay_that_came_as_far_as_the_snapshot_leaves_nothing_to_change(open_vault: Open) -> None:
    vault = await filled(open_vault)
    digest = await stage(vault, SNAPSHOT)
    await vault.apply((revision(9, a=None, c=b"new", d=b""),), OTHER_HASH)
    assert await vault.leap(Revision(9), OTHER_HASH, digest) == ()
    assert await vault.projection() == stored(9, OTHER_HASH, SNAPSHOT)
    await vault.close()


async def test_a_vault_that_begins_anew_has_nothing_staged(open_vault: Open) -> None:
    vault = await filled(open_vault)
    await vault.stage(SNAPSHOT[:2], first=True)
    await vault.begin_anew(CLAIMING)
    assert (await refusal(vault.leap(Revision(9), OTHER_HASH, digest_of(SNAPSHOT[:2])))).code == "BAD_SNAPSHOT"
    await vault.leap(Revision(9), OTHER_HASH, await stage(vault, SNAPSHOT))
    assert await vault.projection() == stored(9, OTHER_HASH, SNAPSHOT)
    await vault.close()
