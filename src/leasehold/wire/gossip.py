"""The physical topology at run time: drives `core/swim` with datagrams and a clock."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final, assert_never

import msgspec

from leasehold.core.swim.codec import Dropped, Seal
from leasehold.core.swim.events import (
    DatagramReceived,
    LeaveFinished,
    LeaveRequested,
    MemberChanged,
    MemberForgotten,
    SendDatagram,
    Started,
    SwimEvent,
)
from leasehold.core.swim.machine import Swim
from leasehold.core.swim.messages import Member, State
from leasehold.core.words.time_passed import TimePassed
from leasehold.errors import BadSettings
from leasehold.limits.swim import SWIM_SEEDS_MAX
from leasehold.wire.deadline import DeadlineTimer
from leasehold.wire.ports import Clock, Datagrams, Entropy


class Traffic(msgspec.Struct, kw_only=True):
    """What was sent and what was dropped since the start; bytes without the headers of UDP and IP."""

    sent: int = 0
    sent_bytes: int = 0
    dropped: Counter[Dropped] = msgspec.field(default_factory=Counter)


class Gossip:
    """One member. `me.address` is where others reach `datagrams`; `run` owns the machine and closes the datagrams.
    `on_change` is called on the loop, in order, and must not block. It gets a member that is new, or whose state or own
    facts have changed; the state is None once the member is forgotten."""

    def __init__(
        self,
        *,
        me: Member,
        seal: Seal,
        seeds: tuple[str, ...],
        clock: Clock,
        entropy: Entropy,
        datagrams: Datagrams,
        on_change: Callable[[Member, State | None], None] = lambda _member, _state: None,
    ) -> None:
        _check(me, seeds)
        self._clock = clock
        self._datagrams = datagrams
        self._entropy = entropy
        self._on_change = on_change
        self._seal = seal
        self.swim: Final = Swim(me=me, seeds=seeds, draw=lambda below: int(entropy.hex_128(), 16) % below)
        """Others may read it; only this class steps it."""
        self._woken = asyncio.Event()
        self._armed_ns: int | None = None
        self._over = asyncio.Event()
        self._runs = False
        self.traffic = Traffic()

    def seal_with(self, seal: Seal) -> None:
        """The cluster key has changed."""
        self._seal = seal

    async def run(self) -> None:
        """Takes part until it has left or is cancelled. After a cancellation the others find out by themselves."""
        assert not self._runs, "a member runs once"
        self._runs = True
        try:
            async with asyncio.TaskGroup() as group:
                self._step(Started())
                tasks = [group.create_task(self._listen()), group.create_task(self._keep_time())]
                await self._over.wait()
                for task in tasks:
                    task.cancel()
        finally:
            self._over.set()
            await self._datagrams.close()

    async def leave(self) -> None:
        """Tells the others that this member leaves, and returns once enough of them know."""
        if self._runs and not self._over.is_set():
            self._step(LeaveRequested())
            await self._over.wait()

    async def _listen(self) -> None:
        while True:
            self._hear(*await self._datagrams.receive())

    async def _keep_time(self) -> None:
        timer = DeadlineTimer(self._clock, self._woken.set)
        try:
            while True:
                self._woken.clear()
                self._armed_ns = self.swim.next_deadline_ns()
                timer.set(self._armed_ns)
                await self._woken.wait()
                # An answer that has arrived counts, however late this process looks.
                while (arrived := self._datagrams.pending()) is not None:
                    self._hear(*arrived)
                self._step(TimePassed())
        finally:
            timer.cancel()

    def _hear(self, source: str, blob: bytes) -> None:
        opened = self._seal.open(blob, source)
        if isinstance(opened, Dropped):
            self.traffic.dropped[opened] += 1
        else:
            self._step(DatagramReceived(source=source, datagram=opened))

    def _step(self, event: SwimEvent) -> None:
        if self._over.is_set():
            return
        for effect in self.swim.step(event, self._clock.now_ns()):
            match effect:
                case SendDatagram(address=address, datagram=datagram):
                    blob = self._seal.seal(datagram, address, bytes.fromhex(self._entropy.hex_128()))
                    self.traffic.sent += 1
                    self.traffic.sent_bytes += len(blob)
                    self._datagrams.send(address, blob)
                case MemberChanged(member=member, state=state):
                    self._on_change(member, state)
                case MemberForgotten(member=member):
                    self._on_change(member, None)
                case LeaveFinished():
                    self._over.set()
                case _:
                    assert_never(effect)
        due_ns = self.swim.next_deadline_ns()
        if due_ns is not None and (self._armed_ns is None or due_ns < self._armed_ns):
            self._woken.set()


def _check(me: Member, seeds: tuple[str, ...]) -> None:
    if len(seeds) > SWIM_SEEDS_MAX:
        raise BadSettings(f"{len(seeds)} seeds are too many", hint=f"name at most {SWIM_SEEDS_MAX} of them")
    try:
        msgspec.convert(msgspec.to_builtins(me), Member)
    except msgspec.ValidationError as error:
        raise BadSettings(
            f"{me.name[:63]!r} can't take part in the physical topology: {error}",
            hint="use a name of up to 63 letters, digits, dots, dashes and underscores, and addresses as host:port",
        ) from error
