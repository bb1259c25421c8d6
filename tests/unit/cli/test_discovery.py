"""What a process keeps of its gossip, and what it is called there."""

import re
from pathlib import Path

import pytest

from leasehold.cli.discovery import Sightings, coordinator_name
from leasehold.core.swim.messages import Member, Role, State
from leasehold.ids import NODE_NAME, NodeId
from leasehold.local.gossip import gossip_words
from leasehold.wire.known_peers import KnownPeers


def member(name: str, *, role: Role = Role.NODE, service: str = "127.0.0.1:1") -> Member:
    return Member(name=name, address="127.0.0.1:9", role=role, service=service, node=NodeId(0))


def test_nodes_are_seen_in_their_newest_state_and_then_no_more() -> None:
    sightings = Sightings(KnownPeers())
    assert sightings.seen("node-1") == ""
    for state in (State.ALIVE, State.SUSPECT, State.DEAD, State.ALIVE, State.LEFT):
        sightings.notice(member("node-1"), state)
        assert sightings.seen("node-1") == state.name
    sightings.notice(member("node-1"), None)
    assert sightings.seen("node-1") == ""


def test_a_coordinator_is_no_node_whatever_it_is_called() -> None:
    sightings = Sightings(KnownPeers())
    sightings.notice(member("node-1"), State.ALIVE)
    sightings.notice(member("node-1", role=Role.COORDINATOR), State.ALIVE)
    assert sightings.seen("node-1") == ""


def test_living_and_suspected_coordinators_are_told_when_they_change() -> None:
    told: list[tuple[str, ...]] = []
    sightings = Sightings(KnownPeers(), told.append)

    def notice(name: str, state: State | None, service: str) -> None:
        sightings.notice(member(name, role=Role.COORDINATOR, service=service), state)

    notice("c1", State.ALIVE, "a:1")
    notice("c1", State.SUSPECT, "a:1")
    notice("c2", State.SUSPECT, "b:1")
    sightings.notice(member("node-1"), State.ALIVE)
    notice("c1", State.ALIVE, "a:2")
    notice("c2", State.DEAD, "b:1")
    notice("c3", State.LEFT, "c:1")
    notice("c1", None, "a:2")
    assert told == [("a:1",), ("a:1", "b:1"), ("a:2", "b:1"), ("a:2",), ()]


@pytest.mark.parametrize(
    ("address", "state", "peer"),
    [
        ("192.0.2.1:7400", State.ALIVE, "192.0.2.1"),
        ("[2001:db8::1]:7400", State.ALIVE, "2001:db8::/64"),
        ("192.0.2.1:7400", State.SUSPECT, None),
        ("node-1.example:7400", State.ALIVE, None),
    ],
)
def test_the_host_of_a_member_that_lives_is_known(address: str, state: State, peer: str | None) -> None:
    known = KnownPeers()
    found = Member(name="node-1", address=address, role=Role.NODE, service="192.0.2.9:1", node=NodeId(0))
    Sightings(known).notice(found, state)
    assert [one for one in ("192.0.2.1", "192.0.2.9", "2001:db8::/64") if one in known] == ([peer] if peer else [])


def test_a_coordinator_is_called_by_where_it_serves() -> None:
    assert coordinator_name("127.0.0.1:4711") == "coordinator-127.0.0.1-4711"
    long = [coordinator_name(f"{'h' * 252}:{port}") for port in (1, 2)]
    names = [coordinator_name("[::1]:4711"), *long]
    assert all(re.fullmatch(NODE_NAME, name) for name in names)
    assert len(set(names)) == 3


def test_a_file_that_names_no_seed_keeps_no_process_from_starting(tmp_path: Path) -> None:
    (tmp_path / "cluster.key").write_text("")
    written = {
        "a": b"127.0.0.1:7001",
        "b": b"",
        "c": b"\xff",
        "d": b"[::1]:7002",
        "e": b"db.example:1",
        "f": b"127.0.0.1:0",
    }
    for name, content in written.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "gossip").write_bytes(content)
    (tmp_path / "g" / "gossip").mkdir(parents=True)
    words = gossip_words(tmp_path / "node-1")
    assert words == [
        "--cluster-key",
        str(tmp_path / "cluster.key"),
        "--gossip",
        "127.0.0.1:0",
        "--seed",
        "127.0.0.1:7001",
    ]
