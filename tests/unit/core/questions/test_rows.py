"""Pages of an answer."""

import msgspec
import pytest

from leasehold.core.questions.rows import pages as divided
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import Rows
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.statements import ROWS_PAGE_MAX


def answer(*cells):
    return Rows(columns=("name",), rows=tuple((cell,) for cell in cells), revision=7)


@pytest.mark.parametrize("count", [0, 1, ROWS_PAGE_MAX, ROWS_PAGE_MAX + 1, 3 * ROWS_PAGE_MAX])
def test_pages_hold_all_rows_in_order_and_all_but_the_last_say_that_more_follow(count):
    whole = answer(*map(str, range(count)))
    pages = list(divided(whole))
    assert len(pages) == max(1, -(-count // ROWS_PAGE_MAX))
    assert [one.more for one in pages] == [True] * (len(pages) - 1) + [False]
    assert msgspec.structs.replace(pages[0], rows=tuple(row for one in pages for row in one.rows), more=False) == whole


def test_wide_rows_make_small_pages_that_fit_into_a_message():
    pages = list(divided(answer(*["\N{GRINNING FACE}" * 400_000] * 5)))
    assert [len(one.rows) for one in pages] == [2, 2, 1]
    assert all(len(encode(one)) < MESSAGE_BYTES_MAX for one in pages)
    assert [len(one.rows) for one in divided(answer("x" * 3_000_000, "y"))] == [1, 1], "one row is never cut"
