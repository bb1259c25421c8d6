"""Which of the tests that take long are run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import shares

HERE = Path(__file__).parent
LONG: list[Any] = [SimpleNamespace(path=shares.SHARED[1] / "test_x.py", nodeid=f"x[{number}]") for number in range(300)]
SHORT: list[Any] = [SimpleNamespace(path=HERE / "test_x.py", nodeid=f"x[{number}]") for number in range(300)]


def test_by_hand_all_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(shares.VARIABLE, raising=False)
    assert shares.left_out(LONG) == []
    assert shares.described() == ""


def test_each_test_that_takes_long_is_in_one_share_and_others_are_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out: dict[int, list[str]] = {}
    for text in "abcdefghij":
        monkeypatch.setenv(shares.VARIABLE, text)
        gone = [one.nodeid for one in shares.left_out(LONG)]
        assert left_out.setdefault(shares.chosen(text), gone) == gone
        assert shares.left_out(SHORT) == []
        assert f"share {shares.chosen(text)} of 3" in shares.described()
    assert sorted(left_out) == [1, 2, 3]
    runs = [one.nodeid for gone in left_out.values() for one in LONG if one.nodeid not in gone]
    assert sorted(runs) == sorted(one.nodeid for one in LONG)
    assert all(150 < len(gone) < 250 for gone in left_out.values())


def test_the_folders_are_there() -> None:
    assert all(one.is_dir() for one in shares.SHARED)
