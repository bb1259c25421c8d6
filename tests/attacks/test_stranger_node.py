"""A stranger, with no file of the cluster and no login, tries to become a node: it gets nothing and writes nothing."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from leasehold.core.membership.identity import CAPABILITIES
from leasehold.core.membership.proofs import derive_keys, with_proof
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.messages import (
    Allocate,
    AskIncarnation,
    AskSnapshot,
    FetchTicket,
    Join,
    JoinAnswer,
    Message,
    OpenSession,
)
from leasehold.core.words.records import Allocated
from leasehold.errors import Forbidden, LeaseholdError, NotLeader, Refused, Superseded
from leasehold.ids import BucketNumber, NodeId, Nonce, Revision, Session, Token
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.membership import NODES_MAX
from leasehold.limits.messages import PROTOCOL_VERSION
from leasehold.limits.units import SECOND_NS
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.flight import BYTES_SCHEMA, calling, reader_to, ticket, within
from leasehold.wire.rpc_client import GrpcTransport
from tests.attacks.ground import ROOT, TABLE, Ground
from tests.e2e.nodes import Node, identity

pytestmark = pytest.mark.processes

TRIES = 20
drawn = SystemEntropy().hex_128


class Stranger:
    """What anybody can ask who reaches the ports."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._connection = BlockingConnection(ground.coordinator)
        with ground.connect(ROOT) as root:
            self.cluster_id = root.whoami().cluster_id

    def ask(self, request: Message) -> Message:
        return self._connection.call(request, CALL_TIMEOUT_NS)

    def allocate(self, token: str, **given: Any) -> Allocate:
        given = {"name": f"stranger-{token[:8]}", "address": "127.0.0.1:9", **given}
        return Allocate(cluster_id=self.cluster_id, token=Token(token), **given)

    def join(self, node: int, **given: Any) -> Join:
        said = {
            "generation": 1,
            "token": Token(drawn()),
            "name": f"node-{node}",
            "address": "127.0.0.1:9",
            "previous": 1,
            "nonce": Nonce(drawn()),
            "session": Session(drawn()),
            "applied": 0,
            "lineage": GENESIS,
        }
        return Join(
            cluster_id=self.cluster_id,
            node=NodeId(node),
            protocol=PROTOCOL_VERSION,
            capabilities=CAPABILITIES,
            **(said | given),
        )

    async def session(self, node: int, incarnation: int) -> Message | None:
        """What is answered to a session under a made-up secret."""
        connection = GrpcTransport().connect(self._ground.coordinator)
        try:
            duplex = await connection.session()
            opening = OpenSession(
                cluster_id=self.cluster_id,
                node=NodeId(node),
                incarnation=incarnation,
                session=Session(drawn()),
                watch_from=Revision(1),
            )
            await duplex.send(opening)
            return await duplex.receive()
        finally:
            await connection.close()

    def snapshot(self, node: int, incarnation: int) -> list[Message]:
        request = AskSnapshot(
            cluster_id=self.cluster_id, node=NodeId(node), incarnation=incarnation, session=Session(drawn())
        )
        return list(self._connection.stream(request, CALL_TIMEOUT_NS))

    def fetch(self, node: int, **given: Any) -> None:
        """Tries to copy a whole segment from each node that has it."""
        with self._ground.connect(ROOT) as root:
            segment = root.plan(TABLE).segments[0]
            places = {one.node: one.address for one in root.facts(TABLE).places}
        for holder in segment.holders:
            request = FetchTicket(
                cluster_id=self.cluster_id,
                table=root_table(self._ground),
                bucket=BucketNumber(segment.bucket),
                segment=segment.id,
                node=NodeId(node),
                **given,
            )
            with calling(places[holder]):
                reader = reader_to(places[holder]).do_get(ticket(request), within(5 * SECOND_NS))
                assert reader.schema == BYTES_SCHEMA
                reader.read_all()


def root_table(ground: Ground) -> Any:
    with ground.connect(ROOT) as root:
        return root.facts(TABLE).table


@pytest.fixture
def stranger(ground: Ground) -> Stranger:
    return Stranger(ground)


def standing(ground: Ground) -> tuple[int, list[str]]:
    """The newest revision, and the nodes. No housekeeping writes here while nothing happens."""
    with ground.connect(ROOT) as root:
        status = root.status()
        return status.revision, [node.name for node in status.nodes]


def refused(ask: Callable[[], object], kind: type[LeaseholdError] = Refused) -> LeaseholdError:
    with pytest.raises(kind) as caught:
        ask()
    assert not isinstance(caught.value, NotLeader) or kind is NotLeader
    return caught.value


def test_a_stranger_gets_no_id_no_incarnation_and_writes_nothing(
    ground: Ground, stranger: Stranger, scale: int
) -> None:
    before = standing(ground)
    foreign = derive_keys(bytes(32))
    with ground.attacked():
        first = standing(ground)[0]
        for _ in range(TRIES * scale):
            for request in (
                stranger.allocate(drawn()),
                with_proof(stranger.allocate(drawn()), foreign),
                msgspec.structs.replace(stranger.allocate(drawn()), proof=b""),
                stranger.allocate("made up", name="'; DROP TABLE", address="nowhere"),
                stranger.join(1),
                with_proof(stranger.join(2), foreign),
                stranger.join(99),
                AskIncarnation(cluster_id=stranger.cluster_id, token=Token(drawn()), node=NodeId(1)),
            ):
                error = refused(lambda request=request: stranger.ask(request))
                assert error.code == "NOT_A_MEMBER", error
                assert "--cluster-key" in error.hint
        assert standing(ground)[1] == before[1]
        # The honest client writes meanwhile, and nothing of what it writes concerns a node.
        assert standing(ground)[0] >= first


def test_nothing_that_a_stranger_asks_moves_the_revision(ground: Ground, stranger: Stranger) -> None:
    before = standing(ground)
    for request in (stranger.allocate(drawn()), stranger.join(1), stranger.join(2, previous=0)):
        assert refused(lambda request=request: stranger.ask(request)).code == "NOT_A_MEMBER"
    assert standing(ground) == before


def test_requests_of_strangers_use_up_no_ids(ground: Ground, stranger: Stranger, scale: int) -> None:
    """As many as there may be nodes, and more: the id after them is the next one."""
    keys = derive_keys(bytes.fromhex((ground.directory / "cluster.key").read_text().strip()))
    foreign = derive_keys(bytes(32))

    def next_id(name: str) -> int:
        node = stranger.ask(with_proof(stranger.allocate(drawn(), name=name), keys)).node  # type: ignore[union-attr]
        with ground.connect(ROOT) as root:
            root.remove_node(name, force=True)
        return node

    before = next_id("before")
    with ground.attacked():
        for _ in range((NODES_MAX + 1) * scale):
            request = with_proof(stranger.allocate(drawn()), foreign)
            assert refused(lambda request=request: stranger.ask(request)).code == "NOT_A_MEMBER"
    assert next_id("after") == before + 1


def test_a_session_and_a_snapshot_need_the_secret_of_a_process_that_joined(ground: Ground, stranger: Stranger) -> None:
    before = standing(ground)
    for incarnation, kind in ((0, Superseded), (1, Superseded), (2, NotLeader)):
        refused(lambda incarnation=incarnation: asyncio.run(stranger.session(1, incarnation)), kind)
        refused(lambda incarnation=incarnation: stranger.snapshot(1, incarnation), kind)
    refused(lambda: asyncio.run(stranger.session(99, 1)), NotLeader)
    refused(lambda: stranger.snapshot(99, 1), NotLeader)
    assert standing(ground) == before


def test_whole_segments_are_for_nodes(ground: Ground, stranger: Stranger) -> None:
    for node in (0, 1, 2, 3, 99):
        refused(lambda node=node: stranger.fetch(node), Forbidden)
        refused(lambda node=node: stranger.fetch(node, session=Session(drawn())), Forbidden)


def test_a_replayed_request_of_a_member_is_answered_as_before_and_writes_nothing(
    ground: Ground, stranger: Stranger
) -> None:
    """Whoever reads the traffic has the bytes of both requests, and not the key."""
    keys = derive_keys(bytes.fromhex((ground.directory / "cluster.key").read_text().strip()))
    token, nonce, session = drawn(), Nonce(drawn()), Session(drawn())
    allocate = with_proof(stranger.allocate(token, name="captured"), keys)
    node = stranger.ask(allocate).node  # type: ignore[union-attr]
    join = with_proof(stranger.join(node, token=token, name="captured", previous=0, nonce=nonce, session=session), keys)
    joined = stranger.ask(join)
    assert isinstance(joined, JoinAnswer)
    before = standing(ground)
    assert stranger.ask(allocate).node == node  # type: ignore[union-attr]
    assert stranger.ask(join) == joined
    # What was proven can't be made to say something else.
    for forged in (
        msgspec.structs.replace(allocate, token=Token(drawn())),
        msgspec.structs.replace(join, session=Session(drawn())),
        msgspec.structs.replace(join, address="127.0.0.1:10"),
        msgspec.structs.replace(stranger.allocate(drawn()), proof=join.proof),
    ):
        assert refused(lambda forged=forged: stranger.ask(forged)).code == "NOT_A_MEMBER"
    assert standing(ground) == before
    with ground.connect(ROOT) as root:
        root.remove_node("captured", force=True)


def test_a_node_without_the_key_ends_and_says_what_to_type(ground: Ground) -> None:
    before = standing(ground)
    directory = ground.directory.parent / "node-stray"
    with Node(directory, ground.cluster, key=None) as stray:
        ended = stray.start().ended()
    ended.refused(3, "NOT_A_MEMBER", "node-stray", "--cluster-key FILE", "cluster_key")
    assert standing(ground) == before
    with Node(directory, ground.cluster) as stray:
        stray.start().serves()
        stray.stop()
    found = asyncio.run(identity(directory))
    assert isinstance(found, Allocated)
    assert found.incarnation == 1
    with ground.connect(ROOT) as root:
        root.remove_node("node-stray", force=True)
