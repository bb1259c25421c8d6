"""Tables on a terminal: small ones ruled, large ones plain, and nothing in them is taken for anything but text."""

import pytest

from leasehold.cli.output import RULED_ROWS_MAX, show_table

COLUMNS = ["table", "comment", "rows"]


def shown(capsys: pytest.CaptureFixture[str], rows: list[tuple[object, ...]]) -> str:
    show_table(COLUMNS, rows)
    return capsys.readouterr().out


def test_a_small_table_has_rules(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, [("t", "mine", 5), ("u", None, 0)])
    assert "│ t     │ mine    │ 5    │" in out
    assert "│ u     │         │ 0    │" in out


def test_a_large_table_has_a_line_for_each_row_and_no_rules(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[tuple[object, ...]] = [(f"t{number}", "", number) for number in range(RULED_ROWS_MAX + 1)]
    lines = shown(capsys, rows).splitlines()
    assert len(lines) == len(rows) + 1
    assert lines[0] == "table  comment  rows"
    assert lines[1] == "t0              0"
    assert lines[-1] == "t1000           1000"


@pytest.mark.parametrize("copies", [1, RULED_ROWS_MAX + 1])
@pytest.mark.parametrize(
    ("comment", "stands"),
    [
        ("[bold]x", "[bold]x"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nb", r"a\nb"),
        ("\u202erun", r"\u202erun"),
        ("ü", "ü"),
    ],
)
def test_what_others_wrote_is_text_and_commands_nothing(
    capsys: pytest.CaptureFixture[str], copies: int, comment: str, stands: str
) -> None:
    out = shown(capsys, [("t", comment, 1)] * copies)
    assert stands in out
    assert "\x1b" not in out
