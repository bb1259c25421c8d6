"""Members that lost their data: when one is refused, and that nothing is changed then."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.errors import Refused, Unreachable
from leasehold.limits.units import SECOND_NS
from leasehold.local.etcd import PROGRAM_VARIABLE, LocalEtcd
from leasehold.local.members import LocalMembers
from leasehold.local.patience import ProcessPatience
from leasehold.local.process import Process
from leasehold.local.rejoin import MemberStart
from leasehold.local.zookeeper import LocalZooKeeper
from leasehold.wire.clock import BoottimeClock, sleep_ns

DAMAGED = "panic: cannot open database at /d/meta-2/data/member/snap/db (invalid database)"


@pytest.mark.parametrize(
    "words",
    [
        "2026-11-24 06:23:50.868991 C | etcdmain: walpb: crc mismatch",
        "2026-11-24 06:23:59.650970 C | etcdmain: wal: max entry size limit exceeded",
        "panic: cannot use none as id",
        DAMAGED,
        "panic: tocommit(605) is out of range [lastIndex(514)]. Was the raft log corrupted, truncated, or lost?",
        "unexpected fault address 0x7f409000a000\nfatal error: fault",
    ],
)
def test_the_last_words_of_an_etcd_that_can_not_use_its_data(words: str) -> None:
    assert LocalEtcd().is_damage(f"[WARNING] Deprecated '--logger=capnslog'\n{words}\n")


@pytest.mark.parametrize(
    "words",
    [
        "2026-11-24 06:23:51 C | etcdmain: listen tcp 127.0.0.1:20001: bind: address already in use",
        "2026-11-24 06:23:51 W | wal: ignored file 0000000000000000-0000000000000000.wal.broken in wal",
        "",
    ],
)
def test_other_words_of_etcd(words: str) -> None:
    assert not LocalEtcd().is_damage(words)


def test_the_words_of_zookeeper() -> None:
    assert LocalZooKeeper().is_damage(
        "main ERROR Unable to load database on disk\njava.io.IOException: CRC check failed"
    )
    assert not LocalZooKeeper().is_damage("main ERROR Unable to bind to quorum port: Address already in use")


class Ground:
    """Three members with data, whose program answers nobody. That of meta-2 ends with `words`, if there are any."""

    def __init__(self, folder: Path, words: str) -> None:
        self.program = folder / "etcd"
        ends = f"case $1 in --name=meta-2) echo '{words}'; exit 1;; esac\n" if words else ""
        self.program.write_text(f"#!/bin/sh\n{ends}exec sleep 60\n")
        self.program.chmod(0o700)
        self.members = LocalMembers(folder / "cluster")
        (folder / "cluster").mkdir()
        self.members.draw(LocalEtcd(), 3)
        self.all = self.members.processes()
        for one in self.all:
            (one.directory / "data/member/wal").mkdir(parents=True)
            (one.directory / "data/member/wal/0.wal").touch()

    def run(self, *names: str) -> None:
        for one in self.all:
            if one.name in names:
                self.members.start(one, is_new=False)

    def start(self, name: str, *, seconds: int) -> None:
        patience = ProcessPatience(seconds * SECOND_NS, sleep_ns, lambda _: None, BoottimeClock().now_ns)
        MemberStart(self.members, patience).start([self[name]])

    def __getitem__(self, name: str) -> Process:
        return next(one for one in self.all if one.name == name)

    def lose(self, name: str) -> None:
        (self[name].directory / "data/member/wal/0.wal").unlink()


@pytest.fixture
def ground(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    ground = Ground(tmp_path, getattr(request, "param", ""))
    monkeypatch.setenv(PROGRAM_VARIABLE, str(ground.program))
    yield ground
    for one in ground.all:
        one.stop()


def test_a_member_without_data_is_not_started_while_one_of_the_others_is_down(ground: Ground) -> None:
    ground.run("meta-1")
    ground.lose("meta-2")
    with pytest.raises(Refused, match=r"meta-2 has lost its data, and meta-3, .* does not run") as caught:
        ground.start("meta-2", seconds=60)
    assert caught.value.code == "NO_QUORUM"
    assert ground["meta-2"].running() is None


@pytest.mark.parametrize("ground", ["panic: write db: no space left on device"], indirect=True)
def test_a_member_that_ends_for_a_reason_of_the_machine_keeps_its_data(ground: Ground) -> None:
    ground.run("meta-1", "meta-3")
    with pytest.raises(Refused, match="no space left") as caught:
        ground.start("meta-2", seconds=60)
    assert caught.value.code == "DID_NOT_START"
    assert ground.members.has_data(ground["meta-2"])


@pytest.mark.parametrize("ground", [DAMAGED], indirect=True)
def test_damaged_data_stays_where_it_is_until_the_others_work_together(ground: Ground) -> None:
    ground.run("meta-1", "meta-3")
    with pytest.raises(Unreachable, match="waiting for the others, from which meta-2 gets the data that it lost"):
        ground.start("meta-2", seconds=2)
    assert ground.members.has_data(ground["meta-2"])


def test_a_member_is_started_without_a_wait_while_most_of_the_others_are_down(ground: Ground) -> None:
    ground.start("meta-2", seconds=0)
    assert ground["meta-2"].running() is not None
