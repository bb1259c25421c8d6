"""Writes docs/errors.md, the table of all error codes, from the guide: `python -m tools.errors_page`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from leasehold.error_codes import ErrorCode
from leasehold.error_guide import SECTIONS
from leasehold.error_guide.entry import GuideEntry

PAGE: Final = Path(__file__).parents[1] / "docs" / "errors.md"
INTRODUCTION: Final = """# Error codes

An error has a code for programs, a text that says what happened, and a hint that says what to do:

```text
error [TABLE_DROPPED]: table nyc.flights was dropped
hint: SHOW TABLES lists what exists
```

The text and the hint of an error name the objects at hand. This page says what each code means in general. Codes are
stable: programs may compare them. A newer process may send a code that an older one does not know; the older one shows
the code as it is.

The exit code is that of a `leasehold` command which ends by the error: 1 a check failed, 2 a usage error, 3 refused,
4 outcome unknown, 5 unreachable. Where a code has two exit codes, it depends on what the
command had asked for. [Operations](operations.md#when-something-fails) says what to do about an exit code.

`python -m tools.errors_page` writes this page from `leasehold.error_guide`.
"""


def _section(title: str, entries: Mapping[ErrorCode, GuideEntry]) -> str:
    rows = (
        f"| `{code}` | {one.meaning} | {' or '.join(f'{exit_code:d}' for exit_code in one.exits)} | {one.remedy} |\n"
        for code, one in entries.items()
    )
    return f"\n## {title}\n\n| code | meaning | exit code | what to do |\n| --- | --- | --- | --- |\n{''.join(rows)}"


def render() -> str:
    """The whole page."""
    return INTRODUCTION + "".join(_section(title, entries) for title, entries in SECTIONS.items())


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
