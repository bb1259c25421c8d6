"""The wheel in an empty virtual environment, as on a machine that runs a node: with the base packages alone."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from tests.documents import ROOT
from tests.needs import lacking

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]  # packages are installed, and compiled as they are used

PARTS = ("LICENSE", "README.md", "pyproject.toml", "src")
"""Of the checkout: what a build reads."""
SPARK = ("pyspark", "pandas", "py4j", "matplotlib")
CLIENT = """
import importlib.util, sys
import pyarrow as pa
import leasehold

assert not any(importlib.util.find_spec(name) for name in sys.argv[1:])
with leasehold.connect("data") as cluster:
    table = cluster.table("d.t")
    assert table.append(pa.table({"a": pa.array([1, 2], pa.int64())})) == 2
    assert sorted(table.scan().read_all()["a"].to_pylist()) == [1, 2]
    assert cluster.query("SELECT sum(a) FROM d.t").read_all()[0].to_pylist() == [3]
    try:
        cluster.query("SELECT a FROM d.t").to_pandas()
    except ImportError as error:
        print(error.code, error.hint)
try:
    import leasehold.spark
except ImportError as error:
    print(error.code, error.hint)
"""


def run(*command: str | Path, cwd: Path) -> str:
    """What it writes to stdout. It sees nothing of this checkout but what it is given."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LEASEHOLD_"))}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=170)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist, of a copy: a build leaves files beside what it reads."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in PARTS:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", target, source, cwd=target)
    (wheel,), (sdist,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of what an image of a container has: the wheel, and the packages that it names."""
    folder = tmp_path_factory.mktemp("image") / "leasehold"
    image = ["sh", ROOT / "tools/image", built[0], folder, sys.executable]
    given = subprocess.run(image, capture_output=True, text=True, check=False, timeout=170)
    if "No matching distribution found" in given.stderr:
        lacking(f"NO PACKAGES: {given.stderr[-2000:]}")
    assert given.returncode == 0, given.stderr
    return folder / "bin"


def test_the_sdist_has_the_license_and_all_sources(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml"} <= names
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.py")}
    assert sources <= names


def test_the_wheel_alone_runs_a_cluster(installed: Path, tmp_path: Path) -> None:
    leasehold = installed / "leasehold"
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert run(leasehold, "--version", cwd=tmp_path) == f"leasehold {version}\n"
    try:
        run(leasehold, "up", "--nodes", "1", "--detach", "--dir", "data", cwd=tmp_path)
        run(leasehold, "sql", "CREATE DATABASE d", "--dir", "data", cwd=tmp_path)
        run(leasehold, "sql", "CREATE TABLE d.t (a BIGINT)", "--dir", "data", cwd=tmp_path)
        told = run(installed / "python", "-c", CLIENT, *SPARK, cwd=tmp_path)
        assert told.splitlines() == 2 * ["NOT_INSTALLED pip install 'leasehold[spark]'"]
    finally:
        run(leasehold, "down", "--dir", "data", cwd=tmp_path)
