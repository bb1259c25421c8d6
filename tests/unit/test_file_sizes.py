"""The files of the project are short: whoever opens one can read it whole."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "bench", "tools", "examples")
LINES_MAX = 400


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
    }
    assert len(lengths) > 600
    assert {name: length for name, length in lengths.items() if length > LINES_MAX} == {}
