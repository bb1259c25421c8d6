"""Datagrams at addresses of any kind, and names that are looked up beside the loop."""

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from leasehold.limits.swim import NAME_LOOK_NS, NAMES_KEPT
from leasehold.limits.units import SECOND_NS
from leasehold.wire import names, udp
from leasehold.wire.names import HostNames, look_up
from leasehold.wire.udp import UdpDatagrams


def port_of(one: UdpDatagrams) -> str:
    return one.address.rpartition(":")[2]


async def passes(sender: UdpDatagrams, receiver: UdpDatagrams, host: str) -> str:
    """Sends until it arrives: a name is looked up first. From where it seems to come."""
    text = f"from {sender.address}".encode()
    while True:
        waits = asyncio.ensure_future(receiver.receive())
        while not waits.done():
            sender.send(f"{host}:{port_of(receiver)}", text)
            await asyncio.wait([waits], timeout=0.01)
        source, blob = await waits
        if blob == text:
            return source
        assert blob.startswith(b"from "), "what was sent twice to be sure that it arrives"


def other_address() -> str:
    """An address of this machine that other machines reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(one.getsockname()[0])


@pytest.mark.parametrize(
    ("listening", "reached"),
    [
        ("127.0.0.1", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"]),
        ("[::1]", ["[::1]"]),
        ("0.0.0.0", ["127.0.0.1", "localhost"]),
        ("[::]", ["127.0.0.1", "[::1]", "localhost"]),
    ],
)
async def test_each_address_is_reached_and_answers(listening: str, reached: list[str]) -> None:
    receiver = await udp.listen(f"{listening}:0")
    for host in reached:
        sender = await udp.listen("[::1]:0" if host == "[::1]" else "127.0.0.1:0")
        source = await passes(sender, receiver, host)
        assert source == sender.address, "also where it comes in over a socket of both families"
        receiver.send(source, b"back")
        assert (await sender.receive())[1] == b"back"
        await sender.close()
    await receiver.close()


async def test_another_address_of_this_machine_is_reached() -> None:
    host = other_address()
    one, other = await udp.listen(f"{host}:0"), await udp.listen("0.0.0.0:0")
    assert await passes(other, one, host)
    assert await passes(one, other, host) == one.address
    for end in (one, other):
        await end.close()


async def test_an_address_of_the_other_family_is_not_sent_to() -> None:
    one, other = await udp.listen("127.0.0.1:0"), await udp.listen("[::1]:0")
    one.send(other.address, b"x")
    one.send("nonsense", b"x")
    one.send("127.0.0.1:99999", b"x")
    other.send(one.address, b"x")
    one.send(one.address, b"only this")
    assert await one.receive() == (one.address, b"only this")
    assert one.pending() is other.pending() is None
    for end in (one, other):
        await end.close()


class Dns:
    """Stands in for the resolver; a look-up waits until `let` is set."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.hosts: dict[str, str] = {}
        self.asked: list[str] = []
        self.let = threading.Event()
        self.let.set()
        patch.setattr(names, "look_up", self.look_up)

    def look_up(self, name: str, _family: object) -> list[str]:
        self.asked.append(name)
        assert self.let.wait(30)
        return [self.hosts[name]] if name in self.hosts else []


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Dns:
    return Dns(monkeypatch)


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 the thread that looks up has no event to set
            await asyncio.sleep(0.001)


class Later:
    """The clock of the loop, which a test moves."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self.extra_s, real = 0.0, loop.time
        patch.setattr(loop, "time", lambda: real() + self.extra_s)


async def test_a_name_is_looked_up_again_after_a_time_and_its_last_address_counts(
    dns: Dns, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, found = Later(monkeypatch), HostNames(socket.AF_INET)
    dns.hosts["a"] = "10.0.0.1"
    assert found.find("a") is None
    await until(lambda: found.find("a") == "10.0.0.1")
    dns.hosts["a"] = "10.0.0.2"
    assert found.find("a") == "10.0.0.1"
    assert dns.asked == ["a"]
    clock.extra_s += NAME_LOOK_NS / SECOND_NS
    assert found.find("a") == "10.0.0.1", "it waits for nobody"
    await until(lambda: found.find("a") == "10.0.0.2")
    dns.hosts.clear()
    clock.extra_s += NAME_LOOK_NS / SECOND_NS
    found.find("a")
    await until(lambda: len(dns.asked) == 3)
    assert found.find("a") == "10.0.0.2", "what was found before counts while the name is not known"
    found.close()


async def test_a_name_that_hangs_holds_up_nobody_and_is_looked_up_once_at_a_time(
    dns: Dns, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, found = Later(monkeypatch), HostNames(socket.AF_INET)
    dns.let.clear()
    for _ in range(5):
        assert found.find("slow") is None
        clock.extra_s += NAME_LOOK_NS / SECOND_NS
    await until(lambda: dns.asked)
    assert dns.asked == ["slow"]
    dns.let.set()
    found.close()


async def test_names_beyond_the_bound_are_not_looked_up(dns: Dns) -> None:
    found = HostNames(socket.AF_INET)
    dns.hosts |= {f"h{number}": "10.0.0.1" for number in range(NAMES_KEPT + 1)}
    for name in dns.hosts:
        found.find(name)
    await until(lambda: len(dns.asked) == NAMES_KEPT)
    assert found.find(f"h{NAMES_KEPT}") is None
    found.close()


def test_a_name_that_is_not_known_has_no_address() -> None:
    assert look_up("localhost", socket.AF_INET) == ["127.0.0.1"]
    for name in ("a" * 300, "\ud800", "x..y", "name.invalid"):
        assert look_up(name) == []
