"""The members of a local ZooKeeper: their configuration, their heap, and what is said where there is no Java."""

import re
from pathlib import Path

import pytest

from leasehold.cli.config import coordinator_config
from leasehold.errors import BadSettings
from leasehold.limits.log import STORE_SWAP_BYTES_MAX
from leasehold.local.engine import LocalMember
from leasehold.local.members import LocalMembers
from leasehold.local.zookeeper import (
    CONFIGURATION,
    LocalZooKeeper,
    find_jars,
    find_java,
    write_member,
    zookeeper_command,
)

KEPT_TRANSACTIONS = 500
"""ZooKeeper keeps no fewer in its memory, whatever is configured."""


def test_the_heap_has_room_for_the_quota_and_the_last_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    members = LocalMembers(tmp_path)
    members.draw(LocalZooKeeper(), 3)
    config = coordinator_config(None, {"dir": tmp_path, **members.settings()})
    (heap,) = (int(found[1]) for one in zookeeper_command(tmp_path, []) if (found := re.fullmatch(r"-Xmx(\d+)m", one)))
    assert heap * 1024**2 > config.meta_quota + 5 * KEPT_TRANSACTIONS * STORE_SWAP_BYTES_MAX


def test_a_member_listens_on_the_loopback_alone_and_knows_the_others(tmp_path: Path) -> None:
    members = {f"meta-{n}": LocalMember(client=n, peer=10 + n, election=20 + n) for n in (1, 2, 3)}
    write_member(tmp_path / "meta-2", members)
    lines = (tmp_path / "meta-2" / CONFIGURATION).read_text().splitlines()
    assert {"clientPort=2", "clientPortAddress=127.0.0.1", "admin.enableServer=false"} <= {*lines}
    assert [one for one in lines if one.startswith("server.")] == [
        f"server.{n}=127.0.0.1:{10 + n}:{20 + n}" for n in (1, 2, 3)
    ]
    assert (tmp_path / "meta-2" / "data" / "myid").read_text() == "2"


def test_a_member_votes_without_data_in_a_new_cluster_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("leasehold.local.zookeeper.find_jars", list)  # on a machine without PySpark too
    members = {f"meta-{n}": LocalMember(client=n, peer=10 + n, election=20 + n) for n in (1, 2, 3)}
    for is_new in (True, False):
        directory = tmp_path / str(is_new) / "meta-2"
        command = LocalZooKeeper().command(directory, members, "", is_new=is_new)
        assert "-Dzookeeper.db.autocreate=false" in command
        assert (directory / "data" / "initialize").exists() == is_new


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BadSettings, match="has no Java") as caught:
        find_java()
    assert caught.value.code == "NO_STORE"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadSettings, match="no Java on the PATH"):
        find_java()
    with pytest.raises(BadSettings, match="PySpark has no nothing-"):
        find_jars(["nothing-*.jar"])
