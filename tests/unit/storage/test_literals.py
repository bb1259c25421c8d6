"""Values of records as Arrow scalars: every canonical literal of `core.words.literals`, and nothing else."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.errors import Refused
from leasehold.storage.schema import arrow_type, column_of, scalar

from .rows import VALUES, column, plain


def text_of(kind: str, value: object) -> str:
    """As records keep it."""
    if isinstance(value, bool):
        return str(value).lower()
    return value.hex() if isinstance(value, bytes) else str(value)


@pytest.mark.parametrize("kind", [*VALUES])
@given(data=st.data())
def test_a_literal_is_the_value_that_it_was_made_from(kind: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[kind])
    found = scalar(text_of(kind, value), kind)
    assert found.type == arrow_type(kind)
    one, other = pa.repeat(found, 1), column(kind, [value])
    assert repr(plain(one).to_pylist()) == repr(plain(other).to_pylist())


@pytest.mark.parametrize("kind", [*VALUES])
def test_a_column_has_the_value_in_each_row_and_null_is_a_value_of_every_type(kind: str) -> None:
    assert scalar(None, kind).as_py() is None
    assert column_of(None, kind, 3).null_count == 3
    assert column_of(None, kind, 3).type == arrow_type(kind)
    assert column_of(None, kind, 0).type == arrow_type(kind)


def test_a_column_of_one_value() -> None:
    assert column_of("7", "INT", 3).to_pylist() == [7, 7, 7]
    assert column_of("x", "STRING", 0).to_pylist() == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("yes", "BOOLEAN"),
        ("", "BOOLEAN"),
        ("128", "TINYINT"),
        ("x", "INT"),
        ("1.5", "BIGINT"),
        ("1.234", "DECIMAL(9,2)"),
        ("12345678.9", "DECIMAL(9,2)"),
        ("NaNsense", "DOUBLE"),
        ("0g", "BINARY"),
        ("2026-01-01", "DATE"),
        ("99999999999", "DATE"),
        ("99999999999999999999", "TIMESTAMP"),
    ],
)
def test_what_is_no_literal_is_refused(text: str, kind: str) -> None:
    """Tickets bring them from outside."""
    with pytest.raises(Refused) as refused:
        scalar(text, kind)
    assert refused.value.code == "BAD_VALUE"
