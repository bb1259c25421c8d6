"""What a command takes from its words and what from a file of credentials."""

from pathlib import Path
from typing import Any, Self

import pytest
import typer
from typer.testing import CliRunner

from leasehold.cli.login import connected
from leasehold.cli.options import DEFAULT_DIR, Dir, User
from leasehold.client.credentials import CREDENTIALS_VARIABLE, PASSWORD_VARIABLE, USER_VARIABLE

app = typer.Typer()
asked: list[tuple[Path | None, str | None]] = []


class Asked:
    """Notes where and as whom a command asks."""

    def __init__(self, target: Path | None, *, user: str | None, **_: object) -> None:
        asked.append((target, user))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@app.command()
def ask(directory: Dir = DEFAULT_DIR, user: User = None) -> None:
    kind: Any = Asked
    with connected(kind, directory, user):
        pass


@pytest.mark.parametrize(
    ("words", "target", "user"),
    [
        ("", None, None),
        ("--dir here", Path("here"), None),
        ("--dir elsewhere", Path("elsewhere"), None),
        ("--user ann", None, "ann"),
        ("-u bob", None, "bob"),
    ],
)
def test_only_words_of_the_command_win_over_a_file_of_credentials(
    monkeypatch: pytest.MonkeyPatch, words: str, target: Path | None, user: str | None
) -> None:
    values = {"LEASEHOLD_DIR": "here", USER_VARIABLE: "ann", PASSWORD_VARIABLE: "x", CREDENTIALS_VARIABLE: "file"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    asked.clear()
    assert CliRunner().invoke(app, words.split()).exit_code == 0
    assert asked == [(target, user)]
    monkeypatch.delenv(CREDENTIALS_VARIABLE)
    asked.clear()
    assert CliRunner().invoke(app, words.split()).exit_code == 0
    assert asked == [(target or Path("here"), user or "ann")]
