"""A simulated network: named hosts, faulty links, and the transport of `wire.ports` over them.

The address of a host named `n1` is `n1:port`. All randomness comes from the generator passed in, all time from the
virtual loop. Bytes travel, not objects, so only what `core.words.codec` can write gets across.

| fault     | a unary request or answer                           | a stream                                        |
| --------- | --------------------------------------------------- | ----------------------------------------------- |
| loss      | gone                                                | late, by a retransmission                       |
| late      | late, perhaps after its caller has given up         | nothing                                         |
| doubled   | comes twice, perhaps after newer ones               | nothing                                         |
| partition | gone, or late until it heals                        | waits; breaks at each end on its own keepalive  |
| pause     | waits at the paused host                            | the same, and breaks on keepalive               |
| kill      | callers of and on it fail                           | breaks; the peer is told unless it is silent    |
| hold      | waits for `release`                                 | waits for `release`, and all behind it          |
"""

from collections.abc import Callable
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final, TypeAlias

import msgspec

from leasehold.core.words.codec import decode_message
from leasehold.core.words.messages import Message
from leasehold.limits.sessions import KEEPALIVE_INTERVAL_NS, KEEPALIVE_TIMEOUT_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.hosts import Host
from leasehold.testing.loop import VirtualLoop
from leasehold.testing.streams import Stream

RETRANSMISSION_NS: Final = 200 * MILLISECOND_NS


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """How one direction between two hosts behaves; probabilities from 0 to 1, delays drawn evenly from a range."""

    delay_min_ns: int = 100_000
    delay_max_ns: int = 2 * MILLISECOND_NS
    loss: float = 0.0
    late: float = 0.0
    doubled: float = 0.0
    """A unary request or answer comes a second time, later."""
    late_max_ns: int = 10 * SECOND_NS


class HeldMessages(msgspec.Struct, eq=False):
    """A rule that makes messages wait, from `Network.hold` to `Network.release`."""

    src: str
    dst: str
    predicate: Callable[[Message], bool]


UnaryFate: TypeAlias = Callable[[str, str, Message], tuple[int, ...] | None]
"""The delays in ns after which a message from one host to another arrives, once for each; None: as the link says."""


class _Letter(msgspec.Struct, eq=False):
    """A unary request or answer under way."""

    src: Host
    dst: Host
    blob: bytes
    deliver: Callable[[], None]


class Network:
    """The links between all hosts, and every fault on them."""

    def __init__(self, loop: VirtualLoop, random: Random, *, link: Link | None = None) -> None:
        self.loop = loop
        self._random = random
        self._link = link or Link()
        self._links: dict[tuple[str, str], Link] = {}
        self._hosts: dict[str, Host] = {}
        self._blocked: set[tuple[str, str]] = set()
        self._holds: list[HeldMessages] = []
        self.fate: UnaryFate | None = None
        """Lets a test decide the fate of each unary message."""
        self._waiting: list[_Letter] = []
        self.streams: dict[Stream, None] = {}
        """Those open at one end at least, in the order of their opening."""

    def host(self, name: str) -> Host:
        """The host with that name, which the first call makes."""
        assert ":" not in name
        if name not in self._hosts:
            self._hosts[name] = Host(self, name)
        return self._hosts[name]

    def set_link(self, src: str, dst: str, link: Link | None) -> None:
        """Sets the link from `src` to `dst`; None for the default."""
        if link is None:
            self._links.pop((src, dst), None)
        else:
            self._links[src, dst] = link

    def partition(self, src: str, dst: str, *, both_ways: bool = True) -> None:
        """Blocks the way from `src` to `dst`, and back if `both_ways`."""
        self._blocked.add((src, dst))
        if both_ways:
            self._blocked.add((dst, src))
        self._changed()

    def heal(self, src: str, dst: str) -> None:
        """Ends a partition between two hosts, both ways."""
        self._blocked -= {(src, dst), (dst, src)}
        self._changed()

    def heal_all(self) -> None:
        """Ends all partitions."""
        self._blocked.clear()
        self._changed()

    def pause(self, name: str) -> None:
        """Makes what arrives at the host wait. It does not stop the tasks of the host."""
        self.host(name).paused = True
        self._changed()

    def resume(self, name: str) -> None:
        """Ends a pause; what waited arrives now."""
        self.host(name).paused = False
        self._changed()

    def kill(self, name: str, *, silent: bool = False) -> None:
        """Ends the host's process at once: its servers, calls and streams, and all it would send later.

        What it had sent still arrives. `silent` is the loss of the whole machine: peers find out by their keepalive or
        timeout.
        """
        self.host(name).end_process(silent=silent)
        self._changed()

    def restart(self, name: str) -> None:
        """Lets a killed host serve and connect again; its old connections stay dead."""
        host = self.host(name)
        assert not host.alive, f"{name} runs already"
        host.alive, host.dark = True, False
        self._changed()

    def hold(self, src: str, dst: str, predicate: Callable[[Message], bool] = lambda _message: True) -> HeldMessages:
        """Makes messages from `src` to `dst` for which `predicate` holds wait before they arrive."""
        hold = HeldMessages(src, dst, predicate)
        self._holds.append(hold)
        return hold

    def release(self, hold: HeldMessages) -> None:
        """Ends a hold; what waited arrives now."""
        self._holds.remove(hold)
        self._changed()

    def is_clear(self, one: str, other: str) -> bool:
        """Whether both hosts run, and the way between them is undisturbed in both directions."""
        if any(not host.alive or host.paused for host in (self.host(one), self.host(other))):
            return False
        ways = ((one, other), (other, one))
        return not any(way in self._blocked or way in self._links for way in ways) and not any(
            (hold.src, hold.dst) in ways for hold in self._holds
        )

    # ------------------------------------------------------------ for hosts and streams

    def is_stuck(self, src: Host, dst: Host, blob: bytes) -> bool:
        """Whether an item that is due, a message if it has bytes, must wait."""
        if dst.paused or (self._blocked and (src.name, dst.name) in self._blocked):
            return True
        return bool(blob and self._holds) and any(
            hold.src == src.name and hold.dst == dst.name and hold.predicate(decode_message(blob))
            for hold in self._holds
        )

    def stream_delay_ns(self, src: Host, dst: Host) -> int:
        """How long an item of a stream takes; a loss is a delay."""
        link = self._links.get((src.name, dst.name), self._link)
        delay_ns = self._delay_ns(link)
        if link.loss and self._random.random() < link.loss:
            delay_ns += RETRANSMISSION_NS
        return delay_ns

    def post(self, src: Host, dst: Host, blob: bytes | None, deliver: Callable[[], None]) -> None:
        """Sends a unary request or answer: calls `deliver` once it arrives, if it does."""
        exact = None if self.fate is None or blob is None else self.fate(src.name, dst.name, decode_message(blob))
        if exact is not None:
            letter = _Letter(src, dst, blob or b"", deliver)
            for delay_ns in exact:
                self.loop.call_at_ns(self.loop.now_ns() + delay_ns, lambda: self._arrive(letter))
            return
        link = self._links.get((src.name, dst.name), self._link)
        delay_ns = self._delay_ns(link)
        if link.loss and self._random.random() < link.loss:
            return
        if link.late and self._random.random() < link.late:
            delay_ns += self._random.randint(0, link.late_max_ns)
        letter = _Letter(src, dst, blob or b"", deliver)
        self.loop.call_at_ns(self.loop.now_ns() + delay_ns, lambda: self._arrive(letter))
        if link.doubled and self._random.random() < link.doubled:
            delay_ns += self._random.randint(0, link.late_max_ns)
            self.loop.call_at_ns(self.loop.now_ns() + delay_ns, lambda: self._arrive(letter))

    def _delay_ns(self, link: Link) -> int:
        span_ns = link.delay_max_ns - link.delay_min_ns + 1
        return link.delay_min_ns + int(span_ns * self._random.random())

    def watch_silence(self, stream: Stream, *, dead: bool = False) -> None:
        """Starts or stops the keepalives of a stream, depending on whether the way is blocked."""
        src, dst = stream.client.host, stream.server.host
        way, back = (src.name, dst.name), (dst.name, src.name)
        silent = dead or src.paused or dst.paused or way in self._blocked or back in self._blocked
        for end in stream.ends():
            if not silent:
                end.stop_keepalive()
            else:
                wait_ns = KEEPALIVE_TIMEOUT_NS + self._random.randint(0, KEEPALIVE_INTERVAL_NS)
                end.start_keepalive(self.loop, wait_ns)

    def _arrive(self, letter: _Letter) -> None:
        if (letter.src.name, letter.dst.name) in self._blocked and self._random.random() < 0.5:
            return
        if self.is_stuck(letter.src, letter.dst, letter.blob):
            self._waiting.append(letter)
        else:
            letter.deliver()

    def _changed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for letter in waiting:
            if self.is_stuck(letter.src, letter.dst, letter.blob):
                self._waiting.append(letter)
            else:
                letter.deliver()
        for stream in tuple(self.streams):
            stream.pump()
            if not stream.is_orphan:
                self.watch_silence(stream)
