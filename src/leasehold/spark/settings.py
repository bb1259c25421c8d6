"""What a Spark session knows of clusters: the address of its own, who logs in, and for how long its tasks may."""

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from leasehold.client.cluster import Cluster
from leasehold.errors import BadSettings
from leasehold.spark.application import application_of
from leasehold.spark.options import CREDENTIALS_OPTION, USER_OPTION
from leasehold.spark.session_kinds import is_classic, session_id, write_from_any_thread
from leasehold.spark.source import anchored, bound_to, default_cluster

CLUSTER_SETTING: Final = "spark.leasehold.cluster"
"""The session's cluster, for `table` and `attach`."""
CREDENTIALS_SETTING: Final = "spark.leasehold.credentials"
"""The session's file of credentials, if it has one."""

_PASSWORDS: Final[dict[tuple[str, str], str]] = {}
"""Those that this process was given, by cluster and user: its sessions tell them to their source."""
_FILES: Final[dict[str, str]] = {}
"""The files of credentials of sessions of Spark Connect, whose servers don't tell this setting."""


def choose_credentials(spark: SparkSession, file: str) -> None:
    """Makes it the file of a session of Spark Connect; a classic session starts with the setting."""
    _FILES[session_id(spark)] = file


def choose_cluster(spark: SparkSession, cluster: str | Path | None) -> None:
    """Makes it the session's cluster; default what its credentials or the environment say."""
    file = _file(spark)
    target = anchored(cluster or default_cluster(file))
    spark.conf.set(CLUSTER_SETTING, target)
    _register(spark, target, file)


def connected(spark: SparkSession, cluster: str | Path | None, user: str | None, password: str | None) -> Cluster:
    """A connection to `cluster`, by default the session's."""
    return Cluster(_target(spark, cluster), user=user, password=password, credentials=_file(spark))


def credentials(spark: SparkSession, target: str, user: str | None, password: str | None) -> dict[str, str]:
    """Options of the source, which takes missing ones from the environment. A password is none of them, since Spark
    shows and keeps options. The class of the session's source has it instead, except with Spark Connect: raises
    `BadSettings`."""
    file = _file(spark)
    if password is not None and not is_classic(spark):
        raise BadSettings(
            "a password is not sent to a server of Spark Connect",
            hint="give session() a file of credentials that is at the same path on the server",
        )
    if user is not None and password is not None and _PASSWORDS.get((target, user)) != password:
        _PASSWORDS[target, user] = password
        _register(spark, _target(spark, None), file)
    given = {USER_OPTION: user, CREDENTIALS_OPTION: file}
    return {key: value for key, value in given.items() if value is not None}


def keeping_logins(spark: SparkSession, target: str) -> bytes:
    """The id of the session's application, which renews from now on its logins at this cluster."""
    application = application_of(spark)
    application.keep(target, _file(spark))
    return application.id


def _register(spark: SparkSession, target: str, file: str | None) -> None:
    """Makes the source of the session one that knows all this."""
    if is_classic(spark):
        write_from_any_thread()
    spark.dataSource.register(bound_to(target, file, _PASSWORDS, keeping_logins(spark, target)))


def _target(spark: SparkSession, cluster: str | Path | None) -> str:
    known = spark.conf.get(CLUSTER_SETTING, None)
    return anchored(cluster or known or default_cluster(_file(spark)))


def _file(spark: SparkSession) -> str | None:
    named = spark.conf.get(CREDENTIALS_SETTING, None) if is_classic(spark) else _FILES.get(session_id(spark))
    return None if named is None else str(Path(named).absolute())
