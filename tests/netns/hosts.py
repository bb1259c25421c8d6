"""Machines of their own for real processes: one network namespace each, joined by a router that can lose packets.

All links end in namespaces: the network of the machine itself is never touched. A cut is a rule of the router that
drops in silence what one host sends to another, as a network does: neither of them is told.
"""

import ctypes
import itertools
import os
import re
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

import psutil

ROUTER = "router"
FIRST = 1
WAY_OUT = "net"
PREFIX = "leasehold-test"
PROBE_SECONDS = 0.05
"""A packet between two of these hosts is there before its sender goes on; so long one that is lost is waited for."""

_CLONE_NEWNET = 0x40000000
_EVERY_PROTOCOL = 0x0003
"""ETH_P_ALL of linux/if_ether.h."""
_OF_A_RUN = re.compile(rf"{PREFIX}-(\d+)-(\d+)-[a-z0-9-]+")
_numbers = itertools.count(1)


T = TypeVar("T")


class Unavailable(Exception):
    """This machine, or this user, can't have network namespaces; the text says why."""


@dataclass(frozen=True, slots=True)
class Family:
    """How the machines of a network are numbered."""

    sockets: socket.AddressFamily
    network: str
    bits: int
    """Of an address."""
    router: str

    def host(self, number: int) -> str:
        return f"{self.network.partition('/')[0].removesuffix('0')}{number}"


IPV4 = Family(socket.AF_INET, "10.77.0.0/24", 32, "10.77.0.254")
IPV6 = Family(socket.AF_INET6, "fd77::/64", 128, "fd77::fe")


@dataclass(frozen=True, slots=True)
class Host:
    """One machine of the network."""

    name: str
    address: str
    namespace: str
    family: Family = IPV4

    def at(self, port: int) -> str:
        """`host:port`, with an address of IPv6 in brackets."""
        return f"[{self.address}]:{port}" if self.family is IPV6 else f"{self.address}:{port}"

    def command(self, *words: str) -> list[str]:
        """`words` as a command that runs on this host, in the process that is started: its pid is the command's."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def recorder(self) -> socket.socket:
        """A socket that gets a copy of each packet that this host sends or receives, from its IP header on."""

        def make() -> socket.socket:
            _enter(self.namespace)
            return socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_EVERY_PROTOCOL))

        return _in_a_thread(make)

    def socket(self, kind: socket.SocketKind) -> socket.socket:
        """A socket of this host; whoever in this process uses it, it stays there."""

        def make() -> socket.socket:
            _enter(self.namespace)
            return socket.socket(self.family.sockets, kind)

        return _in_a_thread(make)


class Hosts:
    """A network of named hosts; a context manager that takes all of it away again, processes included."""

    def __init__(self, *names: str, family: Family = IPV4) -> None:
        self._family = family
        self._run = f"{_this_run()}-{next(_numbers)}"
        self._router = f"{self._run}-{ROUTER}"
        self._hosts = {
            name: Host(name, family.host(number), f"{self._run}-{name}", family)
            for number, name in enumerate(names, FIRST)
        }
        self._cuts: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        check_available()
        remove_leftovers()
        try:
            self._make_router()
            for number, host in enumerate(self._hosts.values(), FIRST):
                self._join(host, f"to{number}")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    @property
    def router(self) -> Host:
        """All that one host sends to another passes here."""
        return Host(ROUTER, self._family.router, self._router, self._family)

    # ------------------------------------------------------------ faults

    def cut(self, sender: str, receiver: str) -> None:
        """From now on nothing that `sender` sends arrives at `receiver`; the other way stays as it is."""
        if (sender, receiver) not in self._cuts:
            self._cuts.add((sender, receiver))
            self._ip(self._router, "rule", "add", *self._rule(sender, receiver))
        assert not self.reachable(sender, receiver)

    def cut_both_ways(self, one: str, other: str) -> None:
        """Nothing passes between the two."""
        self.cut(one, other)
        self.cut(other, one)

    def mend(self, sender: str, receiver: str) -> None:
        """Takes one cut away; harmless if there is none."""
        if (sender, receiver) in self._cuts:
            self._cuts.remove((sender, receiver))
            self._ip(self._router, "rule", "del", *self._rule(sender, receiver))

    def heal(self) -> None:
        """Everything passes again."""
        while self._cuts:
            self._ip(self._router, "rule", "del", *self._rule(*self._cuts.pop()))

    def reachable(self, sender: str, receiver: str) -> bool:
        """Whether a packet that `sender` sends arrives at `receiver`; says nothing of the way back."""
        with self[sender].socket(socket.SOCK_DGRAM) as out, self[receiver].socket(socket.SOCK_DGRAM) as into:
            into.bind((self[receiver].address, 0))
            out.bind((self[sender].address, 0))
            out.sendto(b"?", into.getsockname())
            return bool(select.select([into], [], [], PROBE_SECONDS)[0])

    def _rule(self, sender: str, receiver: str) -> list[str]:
        return ["pref", "10", "from", self[sender].address, "to", self[receiver].address, "blackhole"]

    # ------------------------------------------------------------ making and removing

    def _make_router(self) -> None:
        _make_namespace(self._router)
        # It doesn't ask which way a packet would go back: that may be cut.
        if self._family is IPV6:
            _set(self._router, {"ipv6/conf/all/forwarding": 1})
            return
        settings = {"ip_forward": 1, "conf/all/rp_filter": 0, "conf/default/rp_filter": 0}
        settings |= {"conf/default/accept_local": 1, "conf/all/send_redirects": 0, "conf/default/send_redirects": 0}
        _set(self._router, {f"ipv4/{name}": value for name, value in settings.items()})
        self._ip(self._router, "addr", "add", f"{self._family.router}/32", "dev", "lo")

    def _join(self, host: Host, port: str) -> None:
        here, router, bits = host.namespace, self._router, self._family.bits
        _make_namespace(here)
        if self._family is IPV4:
            _set(here, {"ipv4/conf/all/rp_filter": 0, "ipv4/conf/default/rp_filter": 0})
        self._ip(here, "link", "add", WAY_OUT, "type", "veth", "peer", "name", port, "netns", router)
        self._ip(here, "link", "set", WAY_OUT, "up")
        self._ip(router, "link", "set", port, "up")
        # An address of IPv6 is used only once nobody has claimed it for a second, unless one knows better.
        known = ["nodad"] if self._family is IPV6 else []
        if known:  # who asks for a neighbour of IPv6 is answered only where the address is
            self._ip(router, "addr", "add", f"{self._family.router}/{bits}", "dev", port, *known)
        self._ip(here, "addr", "add", f"{host.address}/{bits}", "dev", WAY_OUT, *known)
        self._ip(router, "route", "add", f"{host.address}/{bits}", "dev", port)
        way = ["via", self._family.router, "dev", WAY_OUT, "onlink", "src", host.address]
        self._ip(here, "route", "add", self._family.network, *way)

    def _ip(self, namespace: str, *words: str) -> None:
        _ip("-n", namespace, *(["-6"] if self._family is IPV6 else []), *words)

    def _remove(self) -> None:
        for host in self._hosts.values():
            remove_namespace(host.namespace)
        remove_namespace(self._router)


# ---------------------------------------------------------------- what there is on this machine


def check_available() -> None:
    """Raises `Unavailable` where network namespaces can't be made."""
    if os.geteuid() != 0:
        raise Unavailable("network namespaces need root")
    if shutil.which("ip") is None:
        raise Unavailable("network namespaces need the command `ip` of iproute2")
    trial = f"{_this_run()}-trial"
    try:
        _ip("netns", "add", trial)
        _ip("-n", trial, "link", "add", WAY_OUT, "type", "veth", "peer", "name", "peer")
        _set(trial, {"ipv4/conf/all/rp_filter": 0})
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"`{' '.join(error.cmd)}` says: {error.stderr.strip()}") from error
    except OSError as error:
        raise Unavailable(f"the settings of a namespace can't be changed: {error}") from error
    finally:
        remove_namespace(trial)


def has_ipv6() -> bool:
    """Whether a new namespace has it."""
    off = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
    return off.exists() and off.read_text().strip() == "0"


def namespaces() -> list[str]:
    """All namespaces of these tests, of any run."""
    listed = _ip("netns", "list").splitlines()
    return [name for name in (line.split()[0] for line in listed if line.strip()) if _OF_A_RUN.fullmatch(name)]


def remove_leftovers() -> None:
    """Takes away what runs left that were killed before they could do it themselves."""
    for name in namespaces():
        found = _OF_A_RUN.fullmatch(name)
        assert found is not None
        pid, started = int(found[1]), int(found[2])
        if not psutil.pid_exists(pid) or _started(pid) != started:
            remove_namespace(name)


def remove_namespace(name: str) -> None:
    """Ends the processes in a namespace of these tests and removes it; harmless if there is none."""
    assert _OF_A_RUN.fullmatch(name), "only what these tests made"
    if not Path("/run/netns", name).exists():
        return
    for pid in _ip("netns", "pids", name).split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
    _ip("netns", "del", name)


def _make_namespace(name: str) -> None:
    _ip("netns", "add", name)
    _ip("-n", name, "link", "set", "lo", "up")


def _set(namespace: str, settings: dict[str, int]) -> None:
    def write() -> None:
        _enter(namespace)
        for name, value in settings.items():
            Path("/proc/sys/net", name).write_text(str(value))  # of the namespace of the thread that opens it

    _in_a_thread(write)


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


def _this_run() -> str:
    return f"{PREFIX}-{os.getpid()}-{_started(os.getpid())}"


def _started(pid: int) -> int:
    """When a process began, to tell it from a later one of the same number; 0 if there is none."""
    try:
        return int(psutil.Process(pid).create_time() * 100)
    except psutil.NoSuchProcess:
        return 0


def _enter(namespace: str) -> None:
    """This thread's sockets belong to the namespace from now on; the thread must end after it has made them."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/run/netns", namespace).open("rb") as file:
        if libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _in_a_thread(work: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()
