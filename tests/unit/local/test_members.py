"""The members of a local etcd: their ports, their commands, and what is said where there is no etcd."""

import os
from pathlib import Path

import pytest

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, BadSettings, Refused
from leasehold.local.members import MEMBERS_FILE, PROGRAM_VARIABLE, LocalMembers, find_etcd
from leasehold.local.processes import LocalCluster
from leasehold.metastorage.location import parse_location


def program(at: Path) -> str:
    at.write_text("#!/bin/sh\nexec sleep 60\n")
    at.chmod(0o700)
    return str(at)


def test_the_ports_are_drawn_once(tmp_path: Path) -> None:
    members = LocalMembers(tmp_path)
    assert members.location() is None
    assert members.processes() == []
    assert members.coordinators() is None
    members.draw(3)
    location = members.location()
    assert location is not None
    assert len(parse_location(location).endpoints) == 3
    members.draw(5)
    assert LocalMembers(tmp_path).location() == location
    assert LocalMembers(tmp_path).coordinators() == 3
    assert [one.name for one in members.processes()] == ["meta-1", "meta-2", "meta-3"]


def test_a_damaged_file_of_members_is_told(tmp_path: Path) -> None:
    (tmp_path / MEMBERS_FILE).write_text("{")
    with pytest.raises(BadDirectory, match="damaged"):
        LocalMembers(tmp_path).location()


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
        LocalMembers(directory).draw(begun)
    with pytest.raises(Refused, match=f"has {begun} coordinators") as caught:
        LocalCluster(directory).up(coordinators=asked)
    assert caught.value.code == ErrorCode.OTHER_COORDINATORS
