"""A process without any file of the cluster takes the port of a dead coordinator, and keeps what clients send it."""

import contextlib
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from leasehold.client.cluster import connect
from leasehold.client.locate import COORDINATOR
from leasehold.core.membership.proofs import coordinator_proof, derive_keys
from leasehold.core.words.codec import decode_message, encode
from leasehold.core.words.messages import (
    ChallengeCoordinator,
    ClusterFacts,
    CoordinatorProof,
    Message,
    SessionOpened,
    WhoAreYou,
)
from leasehold.errors import Refused, Superseded, Unauthenticated
from leasehold.ids import Nonce, Revision
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.people import COORDINATOR_PROOF_NS
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.clock import sleep_ns
from leasehold.wire.duplex import END_FRAME
from leasehold.wire.failures import to_failure
from leasehold.wire.rpc import CALL, SESSION, STREAM
from tests.attacks.ground import ROOT
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.nodes import Node
from tests.e2e.test_faults import wait_until

pytestmark = pytest.mark.processes

SECRETS = (ROOT[1].encode(), b"a new password", b"SHOW DATABASES")
Answer = Callable[[ChallengeCoordinator], Message]


class Impostor(grpc.GenericRpcHandler):
    """Says that it is the coordinator, asks everybody to log in, and keeps every byte that it is sent."""

    def __init__(self, facts: ClusterFacts, answer: Answer) -> None:
        self.heard: list[bytes] = []
        self._facts = facts
        self._answer = answer

    def service(self, handler_call_details: Any) -> Any:
        if handler_call_details.method == CALL:
            return grpc.unary_unary_rpc_method_handler(lambda blob, _: self._said(blob))
        if handler_call_details.method == STREAM:
            return grpc.unary_stream_rpc_method_handler(lambda blob, _: iter([self._said(blob)]))
        if handler_call_details.method == SESSION:
            return grpc.stream_stream_rpc_method_handler(self._session)
        return None

    def _session(self, blobs: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        context.send_initial_metadata(())
        yield from (self._said(blob) for blob in blobs if blob != END_FRAME)

    def _said(self, blob: bytes) -> bytes:
        self.heard.append(blob)
        match decode_message(blob):
            case WhoAreYou():
                return encode(self._facts)
            case ChallengeCoordinator() as challenge:
                return encode(self._answer(challenge))
            case _:
                return encode(to_failure(Unauthenticated("who are you?")))


@contextlib.contextmanager
def listening(address: str, impostor: Impostor) -> Generator[str]:
    """At the address that it gives; port 0 picks a free one."""
    server = grpc.server(ThreadPoolExecutor(4), handlers=[impostor], options=[("grpc.so_reuseport", 0)])
    port = server.add_insecure_port(address)
    assert port
    server.start()
    try:
        yield f"{address.rpartition(':')[0]}:{port}"
    finally:
        server.stop(None).wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """One node, and the administrator."""
    with RunningCluster.start(tmp_path_factory.mktemp("impostor") / "cluster", nodes=1) as running:
        with running.connect() as first:
            first.sql(f"CREATE USER {ROOT[0]} PASSWORD '{ROOT[1]}'")
        yield running


def proof_of_before(directory: Path, address: str, cluster_id: Any) -> CoordinatorProof:
    """What the true coordinator once answered to another challenge."""
    connection = BlockingConnection(address)
    try:
        challenge = ChallengeCoordinator(cluster_id=cluster_id, address=address, nonce=Nonce("1" * 32))
        answer = connection.call(challenge, CALL_TIMEOUT_NS)
        assert isinstance(answer, CoordinatorProof)
        keys = derive_keys(bytes.fromhex((directory / "cluster.key").read_text().strip()))
        assert answer.proof == coordinator_proof(challenge, keys)
        return answer
    finally:
        connection.close()


def test_no_password_no_login_and_no_statement_is_sent_to_who_took_the_port(cluster: RunningCluster) -> None:
    user, password = ROOT
    with (
        connect(cluster.directory, user=user, password=password) as logged_in,
        connect(cluster.directory, user=user, password=password) as fresh,
    ):
        logged_in.sql("SHOW TABLES")
        token = logged_in.token
        assert token is not None
        facts, address = fresh.whoami(), fresh.address
        old = proof_of_before(cluster.directory, address, facts.cluster_id)
        cluster.kill("coordinator")
        answers: tuple[Answer, ...] = (
            lambda _: to_failure(Unauthenticated("who are you?")),
            lambda _: to_failure(Refused("the message can't be read", code="BAD_MESSAGE")),
            lambda _: CoordinatorProof(proof=b"?" * 32),
            lambda _: CoordinatorProof(proof=b""),
            lambda _: facts,
            lambda _: old,
        )
        for answer in answers:
            impostor = Impostor(facts, answer)
            with listening(address, impostor):
                sleep_ns(COORDINATOR_PROOF_NS if answer is answers[0] else 0)
                for ask in (
                    lambda: logged_in.facts("d.t"),
                    lambda: fresh.sql("SHOW DATABASES"),
                    lambda: fresh.sql(f"ALTER USER {user} PASSWORD 'a new password'"),
                    lambda: fresh.facts("d.t"),
                    fresh.barriers,
                ):
                    with pytest.raises(Refused) as caught:
                        ask()
                    assert caught.value.code == "COORDINATOR_UNPROVEN", caught.value
                    assert address in caught.value.text
                    assert "--cluster-key" in caught.value.hint
                ran = leasehold(
                    "sql", "--user", user, "SHOW DATABASES", directory=cluster.directory, LEASEHOLD_PASSWORD=password
                )
                ran.refused(3, "COORDINATOR_UNPROVEN", address)
            everything = b"".join(impostor.heard)
            assert any(isinstance(decode_message(blob), ChallengeCoordinator) for blob in impostor.heard)
            for secret in (*SECRETS, token.encode()):
                assert secret not in everything
        cluster.local.start(COORDINATOR)
        cluster.wait_until_active()
        fresh.sql("SHOW DATABASES")
        logged_in.sql("SHOW DATABASES")


def test_a_coordinator_proves_no_address_but_its_own(cluster: RunningCluster) -> None:
    """So nobody on another port can pass a challenge on to it."""
    with cluster.connect() as client:
        facts, address = client.whoami(), client.address
    connection = BlockingConnection(address)
    try:
        for other in ("127.0.0.1:1", address + "0", ""):
            challenge = ChallengeCoordinator(cluster_id=facts.cluster_id, address=other, nonce=Nonce("1" * 32))
            with pytest.raises(Refused) as caught:
                connection.call(challenge, CALL_TIMEOUT_NS)
            assert caught.value.code == "OTHER_ADDRESS"
    finally:
        connection.close()


def test_no_node_sends_a_secret_to_who_took_the_port(cluster: RunningCluster, tmp_path: Path) -> None:
    """Neither one that runs nor one that starts; both go on with the true coordinator once it is back."""
    with cluster.connect() as client:
        facts, address = client.whoami(), client.address
    old = proof_of_before(cluster.directory, address, facts.cluster_id)
    running = cluster.local.node("node-1")
    with Node(tmp_path / "starting", cluster) as starting:
        starting.start().serves()
        starting.kill()
        cluster.kill("coordinator")
        told = f"{address} does not prove that it is the coordinator"
        answers: tuple[Answer, ...] = (
            lambda _: CoordinatorProof(proof=b"?" * 32),
            lambda _: SessionOpened(term=facts.term, renew_every_ns=1, latest=Revision(1)),
            lambda _: to_failure(Superseded("a newer process has joined", hint="end")),
            lambda _: old,
        )
        for answer in answers:
            impostor = Impostor(facts, answer)
            with listening(address, impostor):
                starting.start(coordinator=address)
                wait_until(lambda: told in starting.said() and told in running.log.read_text())
                wait_until(lambda heard=impostor.heard: len(heard) > 5)  # type: ignore[misc]
                assert starting.runs()
                starting.kill()
            assert {type(decode_message(blob)) for blob in impostor.heard} == {WhoAreYou, ChallengeCoordinator}
        starting.start(coordinator=address)
        cluster.local.start(COORDINATOR)
        starting.serves()
        cluster.wait_until_active()
        starting.stop()


def test_a_process_on_another_port_can_pass_no_challenge_on(cluster: RunningCluster, tmp_path: Path) -> None:
    with cluster.connect() as client:
        facts, true = client.whoami(), BlockingConnection(client.address)

    def passed_on(challenge: ChallengeCoordinator) -> Message:
        try:
            return true.call(challenge, CALL_TIMEOUT_NS)
        except Refused as error:
            return to_failure(error)

    impostor = Impostor(facts, passed_on)
    try:
        with listening("127.0.0.1:0", impostor) as address, Node(tmp_path / "misled", cluster) as misled:
            misled.start(coordinator=address).ended().refused(3, "COORDINATOR_UNPROVEN", address, "--cluster-key")
    finally:
        true.close()
    assert {type(decode_message(blob)) for blob in impostor.heard} == {WhoAreYou, ChallengeCoordinator}
