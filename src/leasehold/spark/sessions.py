"""A Spark session that knows `format("leasehold")`."""

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pyspark import java_gateway
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from leasehold.errors import BadSettings
from leasehold.limits.processes import JAVA_ANSWER_NS
from leasehold.limits.segments import BATCH_ROWS
from leasehold.limits.units import SECOND_NS
from leasehold.spark.settings import CREDENTIALS_SETTING, choose_cluster, choose_credentials

JAVA_VERSION_MIN: Final = 17
JAVA_HINT: Final = (
    "install one: `apt-get install openjdk-17-jre-headless` (Debian, Ubuntu), "
    "`dnf install java-21-openjdk-headless` (Fedora), "
    '`brew install openjdk@17` and `export JAVA_HOME="$(brew --prefix openjdk@17)"` (macOS)'
)
_ECHOES: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?([0-9]+)')

_SETTINGS: Final[Mapping[str, str]] = {
    # Spark's own, and where a session's credentials are.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|credentials",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # With it, one query's filter makes Spark plan the scan anew for every query over the same DataFrame.
    "spark.sql.python.filterPushdown.enabled": "false",
    # A TIMESTAMP is an instant; this shows it alike on every machine.
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}

# Without stack traces: the error of a query that fails is raised, with all of it.
_LOG_SETTINGS: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.spark.name = org.apache.spark
logger.spark.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex{none}
"""


def session(
    app_name: str = "leasehold",
    *,
    cluster: str | Path | None = None,
    credentials: str | Path | None = None,
    master: str = "local[2]",
    **conf: str,
) -> SparkSession:
    """The running session, or a new one, in which `format("leasehold")` reads and writes the tables of `cluster`.

    `cluster` is a directory, or host:port of coordinators with commas between them; default what `credentials` says,
    $LEASEHOLD_CLUSTER, else `leasehold-data`. `credentials` is a file that `leasehold token create` made, on this
    machine; default the setting `spark.leasehold.credentials`, else $LEASEHOLD_CREDENTIALS. `conf` are Spark settings
    (`**{"spark.driver.memory": "4g"}`) and override ours. With `master="sc://host:port"` it is a session of Spark
    Connect: the directory of `cluster`, or the file `credentials`, has to be at the same path on its server. Raises
    `BadSettings` for what is no setting of Spark, and without Java 17 or newer; Spark Connect needs none here, but the
    packages of `leasehold[connect]`.
    """
    for name in conf:
        if not name.startswith("spark."):  # Spark would keep it, a password too, and ignore it
            hint = "log in with credentials=.., or with user=.. and password=.. of each call"
            raise BadSettings(f"{name} does not begin with spark., so it is no setting of Spark", hint=hint)
    settings, file = {**_SETTINGS, **conf}, None if credentials is None else str(Path(credentials).absolute())
    if master.startswith("sc://"):
        spark = _connect_session(master, settings, file)
    else:
        spark = _session(app_name, master, settings if file is None else settings | {CREDENTIALS_SETTING: file})
    choose_cluster(spark, cluster)
    return spark


# ---------------------------------------------------------------- starting Spark


def _connect_session(url: str, settings: Mapping[str, str], credentials: str | None) -> SparkSession:
    spark: SparkSession = SparkSession.builder.remote(url).getOrCreate()  # pyright: ignore[reportAttributeAccessIssue]
    for key, value in settings.items():
        with suppress(PySparkException):  # what only a server can set
            spark.conf.set(key, value)
    if credentials is not None:
        choose_credentials(spark, credentials)
    return spark


def _session(app_name: str, master: str, chosen: Mapping[str, str]) -> SparkSession:
    _require_java()
    local = master.startswith("local")
    settings = {**(_LOCAL_SETTINGS if local else {}), **chosen}
    with _log_settings() as log_settings, _environment(local=local), started_without_fork():
        options = "spark.driver.extraJavaOptions"
        settings[options] = f"{settings.get(options, '')} -Dlog4j2.configurationFile={log_settings.as_uri()}".strip()
        # The stubs leave the builder's type open.
        builder: SparkSession.Builder = SparkSession.builder.appName(app_name).master(master)  # pyright: ignore[reportAttributeAccessIssue]
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    # These loggers would print each failed query a second time, with the stack of the Java process.
    for name in _ECHOES:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    return spark


@contextmanager
def _environment(*, local: bool) -> Generator[None]:
    """Sets the environment that the Java process starts with, and restores it afterwards."""
    package_root = str(Path(__file__).resolve().parents[2])
    paths = [package_root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    # The workers of a local session run this interpreter and this checkout.
    wanted = {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    if local:
        wanted |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    else:
        wanted["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


@contextmanager
def started_without_fork() -> Generator[None]:
    """Lets PySpark start Java without Python code between fork and exec.

    With such code Python runs fork handlers, and gRPC, if this process has an open channel, starts its threads again in
    the child. One time in thirty they find their files closed and abort the child, so that Java does not start. A
    process group keeps Ctrl-C away from Java just as well.
    """

    def start(command: list[str], *, preexec_fn: object, **rest: Any) -> object:  # noqa: ARG001 - what must not run
        return subprocess.Popen(command, process_group=0, **rest)

    module: Any = java_gateway  # PySpark offers no other way in
    before, module.Popen = module.Popen, start
    try:
        yield
    finally:
        module.Popen = before


@contextmanager
def _log_settings() -> Generator[Path]:
    """The logging settings that Java reads when it starts: Spark would log much before other settings count."""
    with tempfile.TemporaryDirectory(prefix="leasehold-spark-") as directory:
        path = Path(directory) / "log4j2.properties"
        path.write_text(_LOG_SETTINGS)
        yield path


def _require_java() -> None:
    """Raises `BadSettings` if Java is missing or too old; Spark's launcher would fail later, with a worse message."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    version = None if java is None else _java_version(java)
    if version is None or version < JAVA_VERSION_MIN:
        found = "no Java was found" if version is None else f"{java} is Java {version}"
        where = f" in JAVA_HOME, {home}" if home and version is None else ""
        raise BadSettings(f"Spark needs Java {JAVA_VERSION_MIN} or newer, and {found}{where}", hint=JAVA_HINT)


def _java_version(java: str) -> int | None:
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=True, timeout=JAVA_ANSWER_NS / SECOND_NS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = _JAVA_VERSION.search(answer.stderr + answer.stdout)
    return int(match[1]) if match else None
