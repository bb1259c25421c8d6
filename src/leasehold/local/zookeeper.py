"""The ZooKeeper that runs on this machine: the jars that PySpark brings along, on the Java that Spark needs.

A member has a directory with its configuration, `zoo.cfg`, and what it keeps, `data`.
"""

import asyncio
import importlib.util
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings
from leasehold.limits.log import STORE_TRY_NS
from leasehold.local.engine import LocalMember
from leasehold.local.files import make_directory
from leasehold.local.ports import LOOPBACK
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.tries import TryFailed
from leasehold.metastorage.zookeeper.status import ask_status

CONFIGURATION: Final = "zoo.cfg"
_JARS: Final = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "slf4j-api-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
)
_HEAP_MIB_MAX: Final = 2_560
"""Room for the quota, and for the last 500 transactions: a member keeps these beside the nodes, for others that were
away, and the leader each in several forms. With 512 MiB of large values 1,280 were too little, and 2,048 hardly enough.
Java takes memory only as it needs it."""
_TICK_MS: Final = 500
_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class LocalZooKeeper:
    """Implements `LocalEngine`."""

    scheme: str = "zookeeper"
    user: str = "leasehold"
    quota: str | None = "512MiB"

    def check(self) -> None:
        """As `find_java` and `find_jars`."""
        find_java()
        find_jars()

    def command(self, directory: Path, members: Mapping[str, LocalMember], token: str, *, is_new: bool) -> list[str]:
        """As `LocalEngine.command`. Raises as `check`."""
        del token  # members of ZooKeeper know each other by their ports alone
        write_member(directory, members, is_new=is_new)
        return zookeeper_command(directory, find_jars())

    def is_member(self, command: Sequence[str], directory: Path) -> bool:
        """As `LocalEngine.is_member`."""
        return list(command[-2:]) == [_MAIN, str(directory / CONFIGURATION)]

    def has_data(self, directory: Path) -> bool:
        """As `LocalEngine.has_data`."""
        stored = directory / "data/version-2"
        return any(stored.glob("snapshot.*")) or any(stored.glob("log.*"))

    def is_damage(self, words: str) -> bool:
        """As `LocalEngine.is_damage`."""
        return "Unable to load database on disk" in words

    def is_together(self, access: StoreAccess) -> bool:
        """As `LocalEngine.is_together`."""
        return asyncio.run(_is_together(access))

    def replace(self, member: LocalMember, others: StoreAccess) -> None:
        """As `LocalEngine.replace`: a member without data does not vote until it has that of a leader."""

    def protect(self, addresses: Sequence[str], password: str, wait: Callable[[str], None]) -> None:
        """As `LocalEngine.protect`: whatever a user of ZooKeeper makes is for that user alone from the beginning."""


async def _is_together(access: StoreAccess) -> bool:
    try:
        statuses = [await ask_status(address, None, timeout_ns=STORE_TRY_NS) for address in access.endpoints]
    except TryFailed:
        return False
    return any(status.leads for status in statuses)


def find_java() -> str:
    """The program that Spark would take: of `$JAVA_HOME`, or on the PATH. Raises `BadSettings` where there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home) / "bin/java") if home else "java")
    if found is None:
        what = f"JAVA_HOME is {home!r}, which has no Java" if home else "there is no Java on the PATH"
        hint = "install Java 17 or newer, on Debian and Ubuntu with `apt-get install openjdk-17-jre-headless`"
        raise BadSettings(what, code=ErrorCode.NO_STORE, hint=hint)
    return found


def find_jars(patterns: Sequence[str] = _JARS) -> list[Path]:
    """The jars of ZooKeeper and of what it needs. Raises `BadSettings` where PySpark or one of them is missing."""
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin or "").parent / "jars" if spec else Path("jars")
    found = [sorted(folder.glob(pattern)) for pattern in patterns]
    missing = [pattern for pattern, paths in zip(patterns, found, strict=True) if not paths]
    if missing:
        what = (
            f"PySpark has no {missing[0]} in {folder}"
            if spec
            else "PySpark, which has ZooKeeper in it, is not installed"
        )
        raise BadSettings(what, code=ErrorCode.NO_STORE, hint="pip install 'leasehold[spark]'")
    return [path for paths in found for path in paths]


def write_member(
    directory: Path, members: Mapping[str, LocalMember], more: Mapping[str, str] | None = None, *, is_new: bool = True
) -> None:
    """Writes the configuration of the member whose directory it is, among all members by their names in an order that
    stays. It listens on the loopback interface only. `more` are further settings."""
    data = directory / "data"
    make_directory(data)
    if is_new:
        (data / "initialize").touch()  # the next start deletes it
    names = list(members)
    settings = {
        "dataDir": str(data),
        "clientPort": str(members[directory.name].client),
        "clientPortAddress": LOOPBACK,
        "tickTime": str(_TICK_MS),
        "initLimit": "20",
        "syncLimit": "6",
        "maxSessionTimeout": "30000",
        "maxClientCnxns": "200",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr",
        "autopurge.snapRetainCount": "3",
        "autopurge.purgeInterval": "1",
        "quorumListenOnAllIPs": "false",
    }
    if len(members) > 1:
        (data / "myid").write_text(str(names.index(directory.name) + 1))
        for number, one in enumerate(members.values(), 1):
            settings[f"server.{number}"] = f"{LOOPBACK}:{one.peer}:{one.election}"
    settings |= more or {}
    text = "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items())
    (directory / CONFIGURATION).write_text(text)


def _escaped(value: str) -> str:
    """A value as a file of Java's properties has it: ASCII without backslashes, all else as units of UTF-16."""

    def escaped(one: str) -> str:
        if " " <= one <= "~" and one != "\\":
            return one
        units = one.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

    return "".join(map(escaped, value))


def zookeeper_command(directory: Path, jars: Sequence[Path]) -> list[str]:
    """Starts the member whose directory it is. Raises `BadSettings` where there is no Java."""
    return [
        find_java(),
        f"-Xmx{_HEAP_MIB_MAX}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-XX:+ExitOnOutOfMemoryError",
        "-Dlog4j2.level=WARN",
        "-Djava.net.preferIPv4Stack=true",
        # Without data and the file `initialize` it does not vote.
        "-Dzookeeper.db.autocreate=false",
        "-Dzookeeper.jmx.log4j.disable=true",
        "-cp",
        os.pathsep.join(map(str, jars)),
        _MAIN,
        str(directory / CONFIGURATION),
    ]
