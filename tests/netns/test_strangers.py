"""What a stranger who records the network learns: that there is a cluster, and the names of its servers."""

import base64
import contextlib
import json
import re
import socket
import sys
from pathlib import Path
from typing import Final

import pytest

from leasehold.certificates.names import DOMAIN
from leasehold.client.locate import KEY_FILE
from tests.netns.cluster import CLIENT, COORDINATOR, NODES, PORT
from tests.netns.gossiping import GossipingCluster
from tests.netns.hosts import Host, Hosts
from tests.netns.remote import Machine
from tests.netns.run import run
from tests.netns.sniffer import Recorded, Sniffer
from tests.netns.workload import words

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

LEASEHOLD: Final = str(Path(sys.executable).with_name("leasehold"))
HANDSHAKE: Final = b"\x16\x03"
"""How each side of a TLS connection begins."""
TLS_1_3: Final = b"\x00\x2b\x00\x02\x03\x04"
"""The extension of a ServerHello that chooses TLS 1.3, which encrypts certificates (RFC 8446, 4.2.1)."""
CONTROL: Final = b"a control word"
CONTROL_PORT: Final = 7
HELLO_BYTES: Final = 2048
SERVER_NAME: Final = re.compile(rb"[a-z0-9.-]+\." + re.escape(DOMAIN).encode())
"""A ClientHello names the server that it wants in the clear (RFC 6066, 3)."""
SERVER: Final = re.compile(rb"(node-[123]\.)?(node|coordinator)\.[0-9a-f]{16}\." + re.escape(DOMAIN).encode())


class WatchedCluster(GossipingCluster):
    """Everything between its machines is recorded from before the first process starts."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._sniffing = contextlib.ExitStack()

    def _start_beside(self) -> None:
        self.sniffer = self._sniffing.enter_context(Sniffer(self.hosts.router))

    def __exit__(self, *_: object) -> None:
        self._sniffing.close()
        super().__exit__()


def work(machine: Machine, target: str) -> dict[str, bytes]:
    """Has a client on the machine work; answers all that it said in secret, by what it is."""
    told = json.loads(run(machine, sys.executable, "-m", "tests.netns.workload", target))
    return words() | {key: text.encode() for key, text in told.items()}


def found(recorded: Recorded, secrets: dict[str, bytes]) -> set[str]:
    return {what for what, word in secrets.items() if recorded.has(word)}


def test_without_tls_the_sniffer_finds_every_secret(namespaces_available: None, tmp_path: Path) -> None:
    """So the test below would notice each of them. All processes are on one machine: others refuse to go without."""
    directory = str(tmp_path / "cluster")
    with Hosts("alone") as hosts:
        alone = hosts["alone"]
        with Sniffer(alone) as sniffer:
            run(alone, LEASEHOLD, "up", "--insecure", "--detach", "--nodes", "2", "--dir", directory)
            secrets = work(alone, directory)
            run(alone, LEASEHOLD, "down", "--dir", directory)
    assert found(sniffer.recorded(), secrets) == set(secrets)


def test_with_tls_a_stranger_finds_the_names_of_servers_and_nothing_else(
    namespaces_available: None, tmp_path: Path
) -> None:
    with WatchedCluster(tmp_path / "cluster") as watched:
        watched.wait_until_seen()
        secrets = work(watched.trusting(CLIENT), watched.address(COORDINATOR))
        say_in_the_clear(watched.hosts[CLIENT], watched.hosts["node-1"])
    recorded = watched.sniffer.recorded()
    assert recorded.has(CONTROL)
    assert not found(recorded, secrets | cluster_key(watched.directory))
    check_connections(watched, recorded)
    check_gossip(recorded)


def say_in_the_clear(sender: Host, receiver: Host) -> None:
    """A word in two packets of one connection."""
    with receiver.socket(socket.SOCK_STREAM) as server, sender.socket(socket.SOCK_STREAM) as client:
        server.bind((receiver.address, CONTROL_PORT))
        server.listen()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.connect(server.getsockname())
        accepted, _ = server.accept()
        with accepted:
            for part in (CONTROL[:7], CONTROL[7:]):
                client.sendall(part)
                assert accepted.recv(len(part)) == part


def cluster_key(directory: Path) -> dict[str, bytes]:
    text = (directory / KEY_FILE).read_bytes().strip()
    key = bytes.fromhex(text.decode())
    return {"the key's text": text, "the key": key, "the key in base64": base64.b64encode(key)[:-2]}


def check_connections(watched: WatchedCluster, recorded: Recorded) -> None:
    """Each is TLS 1.3 from its first byte, and all machines had some."""
    senders: set[str] = set()
    names: set[bytes] = set()
    for way, stream in recorded.streams:
        sender, sender_port, _, receiver_port = way
        if CONTROL_PORT in {sender_port, receiver_port} or not stream:
            continue
        senders.add(sender)
        assert stream.startswith(HANDSHAKE), (way, stream[:80])
        if sender_port in {PORT, PORT + 1}:
            assert TLS_1_3 in stream[:HELLO_BYTES], way
        names.update(SERVER_NAME.findall(stream))
    assert senders == {watched.hosts[name].address for name in (COORDINATOR, *NODES, CLIENT)}
    assert names
    assert all(SERVER.fullmatch(name) for name in names), names


def check_gossip(recorded: Recorded) -> None:
    """There was some, and it names nobody."""
    datagrams = [one for one in recorded.others if one[0] >> 4 == 4 and one[9] == socket.IPPROTO_UDP]
    assert datagrams
    assert not any(name.encode() in one for name in (COORDINATOR, *NODES) for one in datagrams)
