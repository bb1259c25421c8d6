"""Which task reads which files of a large write."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from leasehold.spark.spool import share


@given(st.lists(st.integers(1, 10_000), max_size=40), st.integers(1, 9))
def test_each_file_is_in_one_share_and_they_stay_in_order(sizes: list[int], shares: int) -> None:
    files = [Path(f"part-{place:05}") for place in range(len(sizes))]
    assert [one for number in range(shares) for one in share(files, sizes, number, shares)] == files


def test_shares_are_about_as_large_as_each_other() -> None:
    files = [Path(f"part-{place:05}") for place in range(200)]
    sizes = [100 + place for place in range(200)]
    largest = max(sizes)
    of_share = [sum(sizes[files.index(one)] for one in share(files, sizes, number, 8)) for number in range(8)]
    assert max(of_share) - min(of_share) <= 2 * largest


def test_files_without_bytes_are_in_a_share_too() -> None:
    files = [Path("a"), Path("b")]
    assert share(files, [0, 0], 0, 3) == files
