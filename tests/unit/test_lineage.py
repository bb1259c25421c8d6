"""The history hash: what it covers, and that its bytes never change."""

import hashlib

import pytest

from leasehold.core.words import keys
from leasehold.core.words.lineage import GENESIS, next_lineage
from leasehold.core.words.operations import Change
from leasehold.ids import LineageHash

A, B, GONE = Change(b"c/a", b"1"), Change(b"c/b", b""), Change(b"c/gone", None)


def test_golden_bytes() -> None:
    # Stored in meta storages and vaults: never edited.
    assert bytes(32) == GENESIS
    first = next_lineage(GENESIS, (A, B, GONE))
    assert first.hex() == "ccfb97b1659bf05fac83b49de84edf46fe448e94949606ec1bb055e9620b275e"
    assert (
        next_lineage(first, (Change(b"c/a", None),)).hex()
        == "28e11d64c3c583711869a69f332fa51ee181ba87c873ed1b626e80b1a48a52ea"
    )


def test_it_is_the_documented_encoding() -> None:
    canonical = (
        b"+" + b"\x00\x00\x00\x03c/a" + b"\x00\x00\x00\x011"
        b"+" + b"\x00\x00\x00\x03c/b" + b"\x00\x00\x00\x00"
        b"-" + b"\x00\x00\x00\x06c/gone"
    )  # fmt: skip
    assert next_lineage(GENESIS, (A, B, GONE)) == hashlib.sha256(GENESIS + canonical).digest()


def test_the_order_of_the_changes_does_not_matter() -> None:
    assert next_lineage(GENESIS, (GONE, B, A)) == next_lineage(GENESIS, iter((A, B, GONE)))


def test_the_lineage_key_itself_is_left_out() -> None:
    own = Change(keys.LINEAGE, b"whatever")
    assert next_lineage(GENESIS, (A, own)) == next_lineage(GENESIS, (A,))
    assert next_lineage(GENESIS, (own,)) != GENESIS, "an empty revision still moves the chain"


@pytest.mark.parametrize(
    "other",
    [
        (A, B),
        (A, GONE),
        (Change(b"c/a", b"2"), B, GONE),
        (Change(b"c/a", None), B, GONE),
        (A, Change(b"c/b", None), GONE),
        (A, B, Change(b"c/gone", b"")),
        (Change(b"c/a1", b""), B, GONE),
        (Change(b"c/", b"a1"), B, GONE),
        (A, B, GONE, Change(b"c/more", b"")),
    ],
)
def test_any_difference_is_seen(other: tuple[Change, ...]) -> None:
    assert next_lineage(GENESIS, other) != next_lineage(GENESIS, (A, B, GONE))


def test_lost_doubled_and_swapped_revisions_are_seen() -> None:
    def chain(*revisions: tuple[Change, ...]) -> LineageHash:
        lineage = GENESIS
        for revision in revisions:
            lineage = next_lineage(lineage, revision)
        return lineage

    true = chain((A,), (B,), (GONE,))
    assert len(true) == 32
    for wrong in (((A,), (GONE,)), ((A,), (B,), (B,), (GONE,)), ((B,), (A,), (GONE,)), ((A, B), (GONE,))):
        assert chain(*wrong) != true
