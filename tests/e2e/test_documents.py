"""Every command and every Python block in the documents runs, in the order in which a reader meets them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS = ["README.md", "docs/operations.md"]

pytestmark = pytest.mark.processes


def blocks(document: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / document).read_text())


def test_every_document_with_commands_is_run() -> None:
    found = [str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]]
    assert [name for name in found if blocks(name)] == DOCUMENTS


@pytest.mark.timeout(300)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_a_document_says_works(document: str, tmp_path: Path) -> None:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    directory = re.search(r"--dir (\S+)", "\n".join(text for _, text in blocks(document)))
    try:
        for language, text in blocks(document):
            if language == "python":
                _run([sys.executable, "-c", text], tmp_path, environment)
                continue
            for line in text.splitlines():
                assert line.startswith("$ "), f"{document}: a console block shows commands only: {line}"
                if not line.startswith("$ make "):  # those run this very test
                    _run(["sh", "-c", line[2:]], tmp_path, environment)
    finally:
        where = "leasehold-data" if directory is None else directory[1]
        subprocess.run(
            ["leasehold", "down", "--dir", where], cwd=tmp_path, env=environment, capture_output=True, check=False
        )


def _run(command: list[str], directory: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
