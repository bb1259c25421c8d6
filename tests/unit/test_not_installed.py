"""Leasehold without PySpark and pandas, which `leasehold[spark]` adds: what needs them says so."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import leasehold
from leasehold.errors import BadSettings
from leasehold.local.zookeeper import find_jars

SOURCE = Path(leasehold.__file__).parent
SPARK = {"pyspark", "pandas"}
WITHOUT = """
import sys
sys.modules["pyspark"] = None
try:
    import leasehold.spark.source
except ImportError as error:
    print(error.code, error.text, error.hint, sep="|")
"""


def imported(path: Path) -> set[str]:
    """The packages that a module imports when it is loaded, or later."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [one.name for node in nodes if isinstance(node, ast.Import) for one in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def test_only_the_connector_and_frames_of_pandas_need_them() -> None:
    users = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if imported(path) & SPARK}
    assert {name for name in users if not name.startswith("spark/")} == {"client/result.py"}
    assert "spark/sessions.py" in users


def test_the_connector_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "NOT_INSTALLED|pyspark is not installed here|pip install 'leasehold[spark]'"


def test_a_local_zookeeper_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BadSettings, match="PySpark, which has ZooKeeper in it, is not installed") as caught:
        find_jars()
    assert (caught.value.code, caught.value.hint) == ("NO_STORE", "pip install 'leasehold[spark]'")
