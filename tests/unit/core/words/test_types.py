import pytest

from leasehold.core.words.types import PLAIN_NAMES, ColumnType, Decimal, Plain, parse_type, render_type
from leasehold.errors import Refused
from leasehold.limits.statements import DECIMAL_PRECISION_MAX

ALL_TYPES: list[ColumnType] = [Plain(name) for name in sorted(PLAIN_NAMES)] + [
    Decimal(precision, scale) for precision in range(1, DECIMAL_PRECISION_MAX + 1) for scale in range(precision + 1)
]


def test_every_type_has_one_spelling_that_is_read_back() -> None:
    spellings = [render_type(one) for one in ALL_TYPES]
    assert [parse_type(text) for text in spellings] == ALL_TYPES
    assert len(set(spellings)) == len(ALL_TYPES)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "int",
        "INTEGER",
        "TEXT",
        "INT ",
        "INT\n",
        "DECIMAL",
        "DECIMAL(10)",
        "DECIMAL(0,0)",
        "DECIMAL(39,0)",
        "DECIMAL(5,6)",
        "DECIMAL(10, 2)",
        "DECIMAL(10,2) ",
        "DECIMAL(05,2)",
        "DECIMAL(5,02)",
        "DECIMAL(\u0661\u0660,\u0662)",
        "DECIMAL(-1,0)",
        "ARRAY<INT>",
        "X" * 1_000,
    ],
)
def test_any_other_spelling_is_refused(text: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_type(text)
    assert caught.value.code == "BAD_TYPE"
    assert "DECIMAL(precision,scale)" in caught.value.hint
    assert len(caught.value.text) < 200
