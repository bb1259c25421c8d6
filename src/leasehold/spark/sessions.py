"""A Spark session that knows `format("leasehold")`, and tables of a cluster as DataFrames and views."""

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark import java_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from leasehold.client.cluster import Cluster, conditions
from leasehold.client.past import AsOf
from leasehold.core.words.messages import Rows
from leasehold.core.words.records import Field
from leasehold.core.words.statements import fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, BadSettings, Refused
from leasehold.limits.processes import JAVA_ANSWER_NS
from leasehold.limits.segments import BATCH_ROWS
from leasehold.limits.units import SECOND_NS
from leasehold.spark.application import application_of
from leasehold.spark.options import (
    CLUSTER_OPTION,
    CREDENTIALS_OPTION,
    TABLE_OPTION,
    THROUGH_OPTION,
    USER_OPTION,
    WHERE_OPTION,
    as_of_options,
)
from leasehold.spark.reader import Asked, fields_of
from leasehold.spark.source import FORMAT, anchored, bound_to, default_cluster
from leasehold.spark.types import select_fields, spark_schema
from leasehold.wire.entropy import SystemEntropy

CLUSTER_SETTING: Final = "spark.leasehold.cluster"
"""The session's cluster, for `table` and `attach`."""
CREDENTIALS_SETTING: Final = "spark.leasehold.credentials"
"""The session's file of credentials, if it has one."""

JAVA_VERSION_MIN: Final = 17
JAVA_HINT: Final = (
    "install one: `apt-get install openjdk-17-jre-headless` (Debian, Ubuntu), "
    "`dnf install java-21-openjdk-headless` (Fedora), "
    '`brew install openjdk@17` and `export JAVA_HOME="$(brew --prefix openjdk@17)"` (macOS)'
)
_PASSWORDS: Final[dict[tuple[str, str], str]] = {}
"""Those that this process was given, by cluster and user: its sessions tell them to their source."""
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
    (`**{"spark.driver.memory": "4g"}`) and override ours. Call it again in every thread that writes. Raises
    `BadSettings` without Java 17 or newer.
    """
    _require_java()
    local = master.startswith("local")
    settings = {**_SETTINGS, **(_LOCAL_SETTINGS if local else {}), **conf}
    if credentials is not None:
        settings[CREDENTIALS_SETTING] = str(Path(credentials).absolute())
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
    # Spark 4.3 looks up Python sinks in the active session of the calling thread. A new thread has none.
    java: Any = spark
    java._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(java._jsparkSession)
    file = _file(spark)
    target = anchored(cluster or default_cluster(file))
    spark.conf.set(CLUSTER_SETTING, target)
    _register(spark, target, file)
    return spark


def table(
    spark: SparkSession,
    name: str,
    columns: Iterable[str] | None = None,
    *,
    where: str | None = None,
    as_of: AsOf | None = None,
    cluster: str | Path | None = None,
    user: str | None = None,
    password: str | None = None,
) -> DataFrame:
    """The table `database.table` as a DataFrame; with `columns` only those are read, in that order.

    `where` chooses rows as in `client.cluster.Table.scan`: what has no such row is not read, and other rows do not
    travel. The frame keeps the revision at which it was first read, or the revision or time `as_of`; ask for the table
    again to see rows that were added since. If the cluster has users, `user` and `password` log in; default
    $LEASEHOLD_USER and $LEASEHOLD_PASSWORD. Raises `NotFound` for a table or column that is not there, `BadStatement`
    for a `where` that can't be read, `BadSettings` for a time without a zone, `Refused` with code BAD_SCHEMA,
    BAD_VALUE, TOO_OLD or FUTURE_REVISION, `Unauthenticated`, `Unreachable`.
    """
    names = None if columns is None or isinstance(columns, str) else tuple(columns)
    if columns is not None and not names:
        raise Refused(
            f"columns is {columns!r}, not a list of names", code=ErrorCode.BAD_SCHEMA, hint='write columns=["origin"]'
        )
    with _connected(spark, cluster, user, password) as connection:
        asked = Asked(table=name, columns=names, where=conditions(where), as_of=as_of)
        # What is wrong is refused here, rather than in a query.
        fields = fields_of(connection, asked)
        options = _credentials(spark, connection.target, user, password)
        options |= {WHERE_OPTION: where} if where is not None else {}
        options |= as_of_options(as_of)
        return _frame(spark, connection, name, fields, options)


def view(
    spark: SparkSession,
    name: str,
    *,
    cluster: str | Path | None = None,
    user: str | None = None,
    password: str | None = None,
) -> DataFrame:
    """The view `database.view` as a DataFrame: Spark runs its SELECT over the tables that it reads.

    Each table keeps the revision at which it was first read; ask for the view again to see rows that were added since.
    `user` and `password` are as in `table`. Raises `NotFound` for an unknown view, `Unauthenticated`, `Unreachable`.
    """
    from leasehold.sql.binder import words  # noqa: PLC0415 - every worker imports this package
    from leasehold.sql.views import written  # noqa: PLC0415 - every worker imports this package

    with _connected(spark, cluster, user, password) as connection:
        facts = connection.view_facts(name)
        called = words((one.name for one in (*facts.tables, *facts.views)), SystemEntropy().hex_128())
        through = ",".join(str(one.view) for one in facts.views)
        options = {THROUGH_OPTION: through, **_credentials(spark, connection.target, user, password)}
        frame: DataFrame | None = None
        try:
            for one in facts.tables:
                fields = select_fields(one.columns, connection.facts(one.name).fields, table=one.name)
                read = _frame(spark, connection, one.name, fields, options)
                read.createOrReplaceTempView(called[one.name])
            for body in facts.views:
                frame = spark.sql(written(body.body, called, "spark")).toDF(*(column.name for column in body.columns))
                frame.createOrReplaceTempView(called[body.name])
        finally:
            # A frame keeps its sources, so the names are not needed any more.
            for word in called.values():
                spark.catalog.dropTempView(word)
        assert frame is not None, "the view itself is the last of them"
        return frame


def attach(
    spark: SparkSession,
    cluster: str | Path | None = None,
    *,
    user: str | None = None,
    password: str | None = None,
) -> list[str]:
    """Makes a temporary view `database_table` of every table, for SQL, and returns the names of the views.

    A view keeps the revision at which it was first read; attach again to replace the views and see new rows. `INSERT
    INTO` works on them. `user` and `password` are as in `table`. Raises `AlreadyExists`, and makes no view, if two
    tables would share one (`a.b_c` and `a_b.c`).
    """
    with _connected(spark, cluster, user, password) as connection:
        listed = connection.sql("SHOW TABLES")
        assert isinstance(listed, Rows), "SHOW answers rows"
        views: dict[str, str] = {}
        for database, name, *_ in listed.rows:
            qualified, view = f"{database}.{name}", f"{database}_{name}"
            other = views.setdefault(fold(view), qualified)
            if other != qualified:
                raise AlreadyExists(
                    f"{other} and {qualified} would both be the view {view}",
                    hint=f'take one of them with leasehold.spark.table(spark, "{qualified}")',
                )
        names = [qualified.replace(".", "_") for qualified in views.values()]
        shared = {CLUSTER_OPTION: connection.target, **_credentials(spark, connection.target, user, password)}
        for view, qualified in zip(names, views.values(), strict=True):
            options = ", ".join(f"{key} {_quoted(one)}" for key, one in {TABLE_OPTION: qualified, **shared}.items())
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW `{view}` USING {FORMAT} OPTIONS ({options})")
        return names


def _frame(
    spark: SparkSession, connection: Cluster, name: str, fields: Iterable[Field], options: Mapping[str, str]
) -> DataFrame:
    reader = spark.read.format(FORMAT).schema(spark_schema(fields)).options(**options)
    return reader.options(**{TABLE_OPTION: name, CLUSTER_OPTION: connection.target}).load()


def _credentials(spark: SparkSession, target: str, user: str | None, password: str | None) -> dict[str, str]:
    """Options of the source, which takes missing ones from the environment. A password is none of them: Spark shows and
    keeps options, so the session's source is told it apart."""
    file = _file(spark)
    if user is not None and password is not None and _PASSWORDS.get((target, user)) != password:
        _PASSWORDS[target, user] = password
        known = spark.conf.get(CLUSTER_SETTING, None) or default_cluster(file)
        _register(spark, anchored(known), file)
    given = {USER_OPTION: user, CREDENTIALS_OPTION: file}
    return {key: value for key, value in given.items() if value is not None}


def _register(spark: SparkSession, target: str, file: str | None) -> None:
    """Makes the source of the session one that knows all this."""
    application = application_of(spark.sparkContext)
    application.keep(target, file)
    spark.dataSource.register(bound_to(target, file, _PASSWORDS, application.id))


def _quoted(text: str) -> str:
    """A literal of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _connected(spark: SparkSession, cluster: str | Path | None, user: str | None, password: str | None) -> Cluster:
    return Cluster(_target(spark, cluster), user=user, password=password, credentials=_file(spark))


def _target(spark: SparkSession, cluster: str | Path | None) -> str:
    known = spark.conf.get(CLUSTER_SETTING, None)
    return anchored(cluster or known or default_cluster(_file(spark)))


def _file(spark: SparkSession) -> str | None:
    named = spark.conf.get(CREDENTIALS_SETTING, None)
    return None if named is None else str(Path(named).absolute())


# ---------------------------------------------------------------- starting Spark


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
