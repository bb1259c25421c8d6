"""The documents as text: which pages there are, their sections, the rows of their tables."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = [path for folder in ("*.md", "docs/**/*.md", "examples/**/*.md") for path in sorted(ROOT.glob(folder))]


def section(page: str, heading: str) -> str:
    """What stands below a heading of the second level."""
    return (ROOT / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]


def rows(text: str) -> list[tuple[str, ...]]:
    """The rows of all tables in a text, without what draws them."""
    lines = (line.strip() for line in text.splitlines())
    found = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line.startswith("|")]
    return [row for row in found if set("".join(row)) - set("- ")]
