"""What `leasehold doctor` finds of gossip: with real members, over real sockets."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.finding_words import is_wrong

from leasehold.cli.checkup import gossip as checkup
from leasehold.cli.checkup.finding import HostFinding
from leasehold.cli.checkup.gossip import GossipCheckup
from leasehold.cli.config import NodeConfig, node_config
from leasehold.cli.discovery import seal_of
from leasehold.core.swim.messages import Member, Role
from leasehold.ids import NodeId
from leasehold.limits.swim import CLUSTER_KEY_BYTES
from leasehold.local.files import make_directory, write_gossip_address
from leasehold.wire import udp
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.gossip import Gossip

KEY = secrets.token_bytes(CLUSTER_KEY_BYTES)


@asynccontextmanager
async def member(name: str, *seeds: str, address: str = "127.0.0.1:0", said: str = "") -> AsyncIterator[Gossip]:
    """A member that takes part; `said`: where it tells others that it is."""
    datagrams = await udp.listen(address)
    me = Member(name=name, address=said or datagrams.address, role=Role.NODE, service="127.0.0.1:1", node=NodeId(0))
    made = Gossip(
        me=me,
        seal=seal_of((KEY,)),
        seeds=seeds,
        clock=BoottimeClock(),
        entropy=SystemEntropy(),
        datagrams=datagrams,
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.run())
        yield made
        running.cancel()


def at(one: Gossip) -> str:
    return one.swim.seen()[0].member.address


async def known(one: Gossip, count: int) -> None:
    async with asyncio.timeout(30):
        while len(one.swim.seen()) < count:  # noqa: ASYNC110 nobody has an event to set
            await asyncio.sleep(0.01)


def of_node(directory: Path, *seeds: str, **given: Any) -> NodeConfig:
    words = {"listen": "127.0.0.1:0", "cluster_key": directory / "key", "seeds": list(seeds), **given}
    return node_config(None, {"dir": directory / "n9", **words})


async def found(config: NodeConfig, key: bytes = KEY) -> tuple[list[HostFinding], set[str]]:
    done = GossipCheckup(config, (key,), config.name, config.advertised("127.0.0.1:7410"))
    return await done.run(), set(done.members)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that doesn't come is not waited for so long."""
    monkeypatch.setattr(checkup, "_REPEATS", 2)


async def test_all_that_a_seed_knows_are_tried_both_ways_and_nobody_remembers_it(tmp_path: Path) -> None:
    async with member("n1") as one, member("n2", at(one)) as other:
        await known(one, 2)
        await known(other, 2)
        findings, names = await found(of_node(tmp_path, at(one)))
        assert all(finding.ok for finding in findings), findings
        assert [finding.text for finding in findings[1:]] == ["answers", "both ways", "both ways"]
        assert names == {"n1", "n2"}
        assert [len(each.swim.seen()) for each in (one, other)] == [2, 2]
        assert [len(each.traffic.dropped) for each in (one, other)] == [0, 0]


async def test_a_seed_by_name_and_both_families(tmp_path: Path) -> None:
    async with member("n1", address="[::]:0", said="localhost:1") as one:
        port = one._datagrams.address.rpartition(":")[2]
        for host in ("127.0.0.1", "localhost", "[::1]"):
            config = of_node(tmp_path, f"{host}:{port}", listen="[::1]:0" if host == "[::1]" else "127.0.0.1:0")
            findings, _ = await found(config)
            assert findings[1].ok, findings


async def test_a_seed_that_is_not_there_or_has_another_key(tmp_path: Path, soon: None) -> None:
    async with member("n1") as one:
        for seed, key in (("127.0.0.1:9", KEY), (at(one), bytes(CLUSTER_KEY_BYTES))):
            findings, names = await found(of_node(tmp_path, seed), key)
            is_wrong(findings[1], "no answer to gossip", "same cluster key", f"UDP port {seed.rpartition(':')[2]}")
            assert names == set()


async def test_a_seed_whose_name_is_not_known(tmp_path: Path, soon: None) -> None:
    for seed in ("nowhere.invalid:7400", "a..b:7400"):
        findings, _ = await found(of_node(tmp_path, seed))
        is_wrong(findings[1], f"{seed.rpartition(':')[0]} is not known", "DNS")


async def test_a_member_that_can_not_be_reached(tmp_path: Path, soon: None) -> None:
    async with member("n1") as one, member("n2", at(one), said="127.0.0.1:9"):
        await known(one, 2)
        findings, _ = await found(of_node(tmp_path, at(one)))
    wrong = [finding for finding in findings if not finding.ok]
    assert [finding.check for finding in wrong] == ["gossip with n2 at 127.0.0.1:9"]
    is_wrong(wrong[0], "no answer", "UDP port 9")


async def test_an_address_of_its_own_that_others_do_not_reach(tmp_path: Path, soon: None) -> None:
    async with member("n1") as one:
        findings, _ = await found(of_node(tmp_path, at(one), advertise="127.0.0.9:7410"))
    is_wrong(findings[2], "does not reach this machine at 127.0.0.9:", "correct advertise")


async def test_long_datagrams_that_are_lost(tmp_path: Path, soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    send = udp.UdpDatagrams.send
    lengths: list[int] = []

    def short_alone(self: udp.UdpDatagrams, address: str, blob: bytes) -> None:
        lengths.append(len(blob))
        if len(blob) < 1_000:
            send(self, address, blob)

    monkeypatch.setattr(udp.UdpDatagrams, "send", short_alone)
    async with member("n1") as one:
        findings, _ = await found(of_node(tmp_path, at(one)))
    is_wrong(findings[2], "long ones don't", "MTU")
    assert 1_100 < max(lengths) <= 1_200


async def test_a_process_that_runs_answers_for_itself(tmp_path: Path) -> None:
    async with member("n1") as one, member("n9", at(one)) as own:
        make_directory(tmp_path / "n9")
        config = of_node(tmp_path, at(one), gossip=at(own))
        write_gossip_address(tmp_path / "n9", at(own))
        await known(one, 2)
        findings, names = await found(config)
        assert all(finding.ok for finding in findings), findings
        assert names == {"n1"}
        (tmp_path / "n9" / "gossip").unlink()
        findings, _ = await found(config)
        is_wrong(findings[0], "another process listens there")


async def test_a_process_without_seeds(tmp_path: Path) -> None:
    findings, _ = await found(of_node(tmp_path))
    assert [(finding.check, finding.ok) for finding in findings] == [("gossip 127.0.0.1:0", True), ("seeds", True)]
