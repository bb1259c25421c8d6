"""Which of the tests that take long are run."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import shares

EACH = list(range(1, shares.SHARES + 1))
LONG: list[Any] = [SimpleNamespace(path=one) for one in shares.shares()]
SHORT: list[Any] = [SimpleNamespace(path=one) for one in sorted(Path(__file__).parent.rglob("test_*.py"))]


def test_by_hand_all_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(shares.VARIABLE, raising=False)
    assert shares.left_out(LONG) == []
    assert shares.described() == ""


def test_each_file_that_takes_long_is_in_one_share_and_others_are_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: dict[int | None, set[Path]] = {}
    for text in "abcdefghij":
        monkeypatch.setenv(shares.VARIABLE, text)
        gone = {one.path for one in shares.left_out(LONG)}
        there = {one.path for one in LONG} - gone
        assert runs.setdefault(shares.chosen(), there) == there
        assert shares.left_out(SHORT) == []
        assert f"share {shares.chosen()} of {shares.SHARES}" in shares.described()
    assert sorted(one for one in runs if one is not None) == EACH
    assert Counter(path for there in runs.values() for path in there) == Counter({one.path: 1 for one in LONG})


@pytest.mark.parametrize("folder", shares.SHARED, ids=lambda one: one.name)
def test_each_share_has_as_many_files_of_each_folder(folder: Path) -> None:
    counts = Counter(share for file, share in shares.shares().items() if file.is_relative_to(folder))
    assert sorted(counts) == EACH
    assert max(counts.values()) - min(counts.values()) <= 1
