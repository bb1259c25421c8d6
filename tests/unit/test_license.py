"""The license is in the tree, whole, and the package says which one it is."""

import hashlib
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS = "0ffddef9e48f8a09aed5caf2d44f7ba1c1be2d9b8e0a6f693b1635b2d5566645"

"""The SHA-256 of the standard text, whatever its line ends and indents."""


def test_the_license_is_apache_2_whole_and_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0"
    assert project["license-files"] == ["LICENSE"]
    text = (ROOT / "LICENSE").read_text()
    assert hashlib.sha256(" ".join(text.split()).encode()).hexdigest() == WORDS
