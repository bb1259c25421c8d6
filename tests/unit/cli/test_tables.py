"""`leasehold status --tables`: one screen, those at risk first, and all of it as JSON."""

import json

import pytest

from leasehold.cli.output import Output
from leasehold.cli.repairs import copies_left
from leasehold.cli.tables import show_tables
from leasehold.core.questions.relations import TABLE_COLUMNS
from leasehold.core.questions.repairs import COLUMNS, COPIES, LEAVES
from leasehold.core.words.messages import Rows
from leasehold.ids import Revision
from leasehold.limits.clients import STATUS_TABLES_SHOWN

MIB = 2**20


def table(name: str, *, in_sync: int = 4, alone: int = 0, lost: int = 0, short: int = 0) -> tuple[object, ...]:
    return ("d", name, 4, 3, 100, 3 * MIB, in_sync, alone, lost, short, short * MIB, 0)


def told(*tables: tuple[object, ...]) -> Rows:
    return Rows(columns=TABLE_COLUMNS, rows=tables, revision=Revision(9))  # pyright: ignore[reportArgumentType]


def test_what_is_at_risk_comes_first_and_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show_tables(
        told(table("sound"), table("short", in_sync=2, short=5), table("alone", in_sync=1, alone=3, short=9)),
        [],
        Output.TABLE,
    )
    out = capsys.readouterr().out
    assert out.index("d.alone") < out.index("d.short") < out.index("d.sound")
    assert "at risk: d.alone: 3 buckets have one copy: the loss of a disk loses rows" in out
    assert out.count("at risk") == 1
    assert "2 of 4" in out


def test_a_lost_bucket_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show_tables(told(table("gone", in_sync=3, lost=1, short=1)), [], Output.TABLE)
    assert "at risk: d.gone: 1 bucket has segments that no node holds" in capsys.readouterr().out


def test_it_is_one_screen_and_json_has_all(capsys: pytest.CaptureFixture[str]) -> None:
    many = told(*(table(f"t{number:03}", in_sync=0, alone=1, short=2) for number in range(2 * STATUS_TABLES_SHOWN)))
    show_tables(many, [], Output.TABLE)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 3 * STATUS_TABLES_SHOWN
    assert any(
        f"and {STATUS_TABLES_SHOWN} more tables, with {2 * STATUS_TABLES_SHOWN} segments to copy" in one
        for one in lines
    )
    show_tables(many, [], Output.JSON)
    found = json.loads(capsys.readouterr().out)
    assert (found["revision"], len(found["tables"]), len(found["at_risk"])) == (9, 60, 60)
    assert found["tables"][0].keys() == set(TABLE_COLUMNS)


def copying(node: str, size_bytes: int, rate: int | None, seconds: int | None) -> dict[str, object]:
    row = (node, COPIES, 1, 1, size_bytes, rate, seconds)
    return dict(zip(COLUMNS, row, strict=True))


def test_what_is_copied_is_said_with_its_rate_once_all_have_one(capsys: pytest.CaptureFixture[str]) -> None:
    leaves = copying("c", 0, None, None) | {"work": LEAVES, "bytes": None}
    repairs = [copying("a", 30 << 20, 10 << 20, 3), copying("b", 130 << 20, 2 << 20, 65), leaves]
    show_tables(told(table("t")), repairs, Output.TABLE)
    assert "under way: 160.0 MiB to copy at 12.0 MiB/s, about 1m5s left" in capsys.readouterr().out
    show_tables(told(table("t")), [*repairs, copying("d", 1 << 20, None, None)], Output.JSON)
    assert len(json.loads(capsys.readouterr().out)["repairs"]) == 4
    assert copies_left([*repairs, copying("d", 1 << 20, None, None)]) == "161.0 MiB to copy"
    assert copies_left([leaves]) == ""
