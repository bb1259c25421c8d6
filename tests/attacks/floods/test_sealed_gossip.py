"""Gossip of somebody with the cluster key, as each node has it: about members that do not exist, as fast as it goes."""

import random
import socket

import pytest

from leasehold.cli.discovery import seal_of
from leasehold.client.locate import KEY_FILE
from leasehold.core.swim.messages import (
    Datagram,
    Member,
    MemberClaim,
    MemberPage,
    News,
    PingRequest,
    Role,
    State,
    SwimIncarnation,
    Sync,
)
from leasehold.ids import NodeId
from leasehold.limits.swim import DATAGRAM_SALT_BYTES, SWIM_INCARNATION_MAX, SWIM_MEMBERS_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.local.files import GOSSIP_FILE
from leasehold.wire import cluster_key
from leasehold.wire.clock import BoottimeClock, sleep_ns
from tests.attacks.ground import Ground

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

DATAGRAMS = 5_000
AT_ONCE = 200
LASTS_NS = 10 * SECOND_NS
REST_NS = 10_000_000
drawn = random.Random(47)


def claim() -> MemberClaim:
    name = f"n{drawn.randrange(10 * SWIM_MEMBERS_MAX)}"
    address = f"127.0.0.1:{drawn.randrange(1, 1024)}"
    member = Member(name=name, address=address, role=Role.NODE, service=address, node=NodeId(0))
    incarnation = SwimIncarnation(drawn.randrange(1, SWIM_INCARNATION_MAX))
    return MemberClaim(member=member, incarnation=incarnation, state=drawn.choice(list(State)), by="x")


def said() -> Datagram:
    claims = tuple(claim() for _ in range(drawn.randrange(6)))
    sender = f"s{drawn.randrange(100)}"
    match drawn.randrange(4):
        case 0:
            return News(sender=sender, claims=claims)
        case 1:
            return Sync(sender=sender, claims=claims, digest=drawn.randbytes(8))
        case 2:
            return MemberPage(sender=sender, claims=claims, answer=True)
        case _:
            return PingRequest(sender=sender, claims=claims, number=7, target="n1", address="127.0.0.1:9")


def test_members_that_do_not_exist(ground: Ground, scale: int) -> None:
    seal = seal_of(cluster_key.read(ground.directory / KEY_FILE))
    datagrams = [seal.seal(said(), "127.0.0.1:1", drawn.randbytes(DATAGRAM_SALT_BYTES)) for _ in range(DATAGRAMS)]
    doors = [
        (one.directory / GOSSIP_FILE).read_text().strip().rsplit(":", 1)
        for one in (ground.cluster.local.coordinator, *ground.cluster.local.nodes())
    ]
    now_ns = BoottimeClock().now_ns
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as member, ground.attacked():
        until_ns = now_ns() + scale * LASTS_NS
        while now_ns() < until_ns:
            for datagram in drawn.sample(datagrams, AT_ONCE):
                host, port = drawn.choice(doors)
                member.sendto(datagram, (host, int(port)))
            sleep_ns(REST_NS)
