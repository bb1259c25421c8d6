"""The members of a local etcd: their ports, their commands, and what is said where there is no etcd."""

import os
import stat
from pathlib import Path

import pytest

from leasehold.cli.up import LocalStore
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, BadSettings, Refused
from leasehold.local.etcd import PROGRAM_VARIABLE, LocalEtcd, find_etcd
from leasehold.local.members import ENGINES, MEMBERS_FILE, LocalMembers
from leasehold.local.processes import LocalCluster
from leasehold.local.zookeeper import LocalZooKeeper
from leasehold.metastorage.location import parse_location


def program(at: Path) -> str:
    at.write_text("#!/bin/sh\nexec sleep 60\n")
    at.chmod(0o700)
    return str(at)


def test_the_ports_and_the_password_are_drawn_once(tmp_path: Path) -> None:
    members = LocalMembers(tmp_path)
    assert members.settings() == {}
    assert members.words() == []
    assert members.processes() == []
    assert members.coordinators() is None
    members.draw(LocalEtcd(), 3)
    settings = members.settings()
    assert len(parse_location(settings["meta"]).endpoints) == 3
    assert members.words()[:4] == ["--meta", settings["meta"], "--meta-user", "root"]
    password = Path(settings["meta_password_file"])
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    drawn = password.read_text()
    assert len(drawn) == 32
    members.draw(LocalEtcd(), 5)
    assert LocalMembers(tmp_path).settings() == settings
    assert LocalMembers(tmp_path).coordinators() == 3
    assert password.read_text() == drawn
    assert [one.name for one in members.processes()] == ["meta-1", "meta-2", "meta-3"]


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[" * 5_000,
        '{"format": 3, "engine": "redis", "coordinators": 3, "members": {}}',
        '{"format": 2, "coordinators": 3, "members": {"../meta-1": {"client": 20001, "peer": 20002}}}',
    ],
)
def test_a_damaged_file_of_members_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / MEMBERS_FILE).write_text(content)
    with pytest.raises(BadDirectory, match="damaged"):
        LocalMembers(tmp_path).words()


def test_a_pipe_in_the_place_of_the_file_of_members_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / MEMBERS_FILE)
    with pytest.raises(BadDirectory, match="is not a file") as caught:
        LocalMembers(tmp_path).words()
    assert caught.value.code is ErrorCode.CORRUPT


def test_members_of_the_first_format_have_no_password(tmp_path: Path) -> None:
    member = '{"client": 20001, "peer": 20002}'
    (tmp_path / MEMBERS_FILE).write_text(f'{{"format": 1, "coordinators": 3, "members": {{"meta-1": {member}}}}}')
    assert LocalMembers(tmp_path).words() == ["--meta", "etcd://127.0.0.1:20001/cluster"]


def test_up_offers_the_stores_that_there_are() -> None:
    assert set(LocalStore) == set(ENGINES)


def test_the_program_is_the_one_that_is_named_or_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = program(tmp_path / "my-etcd")
    monkeypatch.setenv(PROGRAM_VARIABLE, named)
    assert find_etcd() == named
    monkeypatch.delenv(PROGRAM_VARIABLE)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    on_path = program(tmp_path / "etcd")
    assert find_etcd() == on_path


@pytest.mark.parametrize(("named", "said"), [("/no/etcd", "/no/etcd"), ("", "no etcd on the PATH")])
def test_where_there_is_none_it_says_what_to_install_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, said: str
) -> None:
    monkeypatch.setenv(PROGRAM_VARIABLE, named)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadSettings, match=said) as caught:
        LocalCluster(tmp_path / "cluster").up(coordinators=3)
    assert "etcd-server" in caught.value.hint
    assert not (tmp_path / "cluster").exists()


def test_the_store_is_an_etcd_if_there_is_one_and_else_the_zookeeper_of_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = LocalMembers(tmp_path / "cluster")
    monkeypatch.setattr(LocalZooKeeper, "check", lambda _: None)  # on a machine without Java too
    monkeypatch.setenv(PROGRAM_VARIABLE, program(tmp_path / "my-etcd"))
    assert members.choose(3, None) == ENGINES["etcd"]
    assert members.choose(5, "zookeeper") == ENGINES["zookeeper"]
    assert members.choose(1, None) is None
    monkeypatch.delenv(PROGRAM_VARIABLE)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert members.choose(3, None) == ENGINES["zookeeper"]
    with pytest.raises(BadSettings, match="no etcd") as caught:
        members.choose(3, "etcd")
    assert caught.value.code == ErrorCode.NO_STORE


@pytest.mark.parametrize("coordinators", [0, 2, 4, 7])
def test_a_number_of_coordinators_that_can_not_be_is_refused(tmp_path: Path, coordinators: int) -> None:
    with pytest.raises(BadSettings, match="coordinators on one machine"):
        LocalCluster(tmp_path / "cluster").up(coordinators=coordinators)
    assert not (tmp_path / "cluster").exists()


@pytest.mark.parametrize(("begun", "asked"), [(3, 1), (3, 5), (1, 3)])
def test_up_keeps_to_the_number_of_coordinators_with_which_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: int, asked: int
) -> None:
    monkeypatch.setenv(PROGRAM_VARIABLE, program(tmp_path / "my-etcd"))
    directory = tmp_path / "cluster"
    directory.mkdir(mode=0o700)
    if begun == 1:
        (directory / "coordinator").mkdir()
    else:
        LocalMembers(directory).draw(LocalEtcd(), begun)
    with pytest.raises(Refused, match=f"has {begun} coordinators") as caught:
        LocalCluster(directory).up(coordinators=asked)
    assert caught.value.code == ErrorCode.OTHER_COORDINATORS
