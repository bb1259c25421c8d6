"""What commands show: tables, small ones ruled and large ones plain, nothing in them but text; and how far they are."""

import io
import json
import os
import re
import sys

import pytest

from leasehold.cli.output import LINE_WIDTH_MAX, RULED_ROWS_MAX, Line, say, show_json, show_table
from leasehold.cli.sql import _warns

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


class Terminal(io.StringIO):
    """One that somebody looks at."""

    def isatty(self) -> bool:
        return True


NODES = (["id", "name", "lease_remaining_ms"], [(1, "node-1", 2700), (2, "node-2", None)])


@pytest.mark.parametrize(
    ("width", "first"),
    [(80, "┃ id ┃ name   ┃ lease_remaining_ms ┃"), (33, "id                  1")],
    ids=["wide", "narrow"],
)
def test_a_terminal_too_narrow_for_the_names_of_the_columns_shows_a_block_for_each_row(
    monkeypatch: pytest.MonkeyPatch, width: int, first: str
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    show_table(*NODES)
    lines = re.sub("\x1b\\[[0-9]*m", "", terminal.getvalue()).splitlines()
    assert first in lines
    assert max(map(len, lines)) <= width
    if width == 33:
        assert lines == [
            first,
            "name                node-1",
            "lease_remaining_ms  2700",
            "",
            "id                  2",
            "name                node-2",
            "lease_remaining_ms",
        ]


@pytest.mark.parametrize("width", [80, 33])
def test_a_cell_that_warns_is_yellow_on_a_terminal_and_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    show_table(*NODES, is_warned=lambda column, value: column == "name" and value == "node-2")
    assert re.findall("\x1b\\[33m(.*?)\x1b", terminal.getvalue()) == ["node-2"]


@pytest.mark.parametrize(
    ("column", "value", "is_yellow"),
    [
        ("certificate", "2020-01-01 00:00:00Z", True),
        ("certificate", "2999-01-01 00:00:00Z", False),
        ("certificate", None, False),
        ("seen", "2020-01-01 00:00:00Z", False),
    ],
)
def test_a_certificate_that_ends_soon_is_warned(column: str, value: str | None, is_yellow: bool) -> None:
    assert _warns(column, value) is is_yellow


def test_what_no_terminal_shows_is_folded_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, [("t", " ".join(["word"] * 50), 1)])
    assert " ".join(["word"] * 50) in out
    assert max(map(len, shown(capsys, [("t", "x" * 5_000, 1)]).splitlines())) == LINE_WIDTH_MAX


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


@pytest.mark.parametrize("copies", [1, RULED_ROWS_MAX + 1])
@pytest.mark.parametrize(
    ("alias", "stands"), [("[/red]", "[/red]"), ("[red]x", "[red]x"), (":smile:", ":smile:"), ("\x1b[2J", r"\x1b[2J")]
)
def test_an_alias_of_a_column_is_text_too(
    capsys: pytest.CaptureFixture[str], copies: int, alias: str, stands: str
) -> None:
    show_table([alias], [(1,)] * copies)
    out = capsys.readouterr().out
    assert stands in out
    assert "\x1b" not in out


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_json_and_lines_are_valid_whatever_a_file_is_called(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    show_json({"to": os.fsdecode(b"/data/\xc3\xbc\xff"), "more": "\N{GRINNING FACE}"})
    say(os.fsdecode(b"in /data/\xff"))
    first, second = raw.getvalue().splitlines()
    expected = {"to": "/data/\u00fc\N{REPLACEMENT CHARACTER}", "more": "\N{GRINNING FACE}"}
    assert json.loads(first.decode()) == expected
    assert second == rb"in /data/\udcff"


def test_progress_is_a_line_for_each_change_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    line = Line()
    for text in ("a: 1", "a: 1", "a: 2"):
        line.show(text)
    line.show("a: 3 s left", change="a")
    line.show("a: 2 s left", change="a")
    line.done()
    assert capsys.readouterr().err.splitlines() == ["a: 1", "a: 2", "a: 3 s left"]


def test_progress_is_one_line_on_a_terminal_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "8")
    line = Line()
    line.show("a: 1")
    line.show("a: wider than that")
    line.done()
    line.done()
    assert terminal.getvalue() == "\r\x1b[0Ka: 1\r\x1b[0Ka: wide…\r\x1b[0K"


def test_a_terminal_that_can_write_nothing_over_gets_a_line_for_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "dumb")
    line = Line()
    for text in ("a: 1", "a: 1", "a: 2"):
        line.show(text)
    line.done()
    assert terminal.getvalue() == "a: 1\na: 2\n"
