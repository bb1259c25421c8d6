"""The checkup of gossip: asks seeds whom they know, then tries each of these members in both directions.

| what is sent | what it shows |
| --- | --- |
| `Sync` to a seed | the seed has the key, and answers with all the members that it knows |
| `Ping` to a member | datagrams arrive there, and its answers here |
| a `Ping` of the longest kind | the way there takes long datagrams |
| `PingRequest` to a member, to ping the address that others get of this process | what nobody asked for arrives here |

A long ping carries claims about members that never were: that they have left. A member does not remember these. If this
process runs, it answers the last question itself. Otherwise the doctor listens in its place, under a name of its own.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import msgspec

from leasehold.cli.checkup.finding import HostFinding, fine, wrong
from leasehold.cli.checkup.network import unknown_host
from leasehold.cli.config import ProcessConfig
from leasehold.cli.discovery import seal_of
from leasehold.core.swim.codec import CLAIMS_HEADER_BYTES, PAYLOAD_BYTES_MAX, encoded
from leasehold.core.swim.messages import (
    Ack,
    Datagram,
    Member,
    MemberClaim,
    MemberPage,
    Number,
    Ping,
    PingRequest,
    Role,
    State,
    SwimIncarnation,
    Sync,
)
from leasehold.core.words.addresses import host_of
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings
from leasehold.ids import NodeId
from leasehold.limits.checkup import CHECKUP_AT_ONCE, CHECKUP_GOSSIP_NS, CHECKUP_GOSSIP_REPEAT_NS
from leasehold.limits.units import SECOND_NS
from leasehold.local.files import GOSSIP_FILE
from leasehold.wire import udp
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.names import look_up
from leasehold.wire.udp import UdpDatagrams

A = TypeVar("A")

_REPEAT_S: Final = CHECKUP_GOSSIP_REPEAT_NS / SECOND_NS
_REPEATS: Final = CHECKUP_GOSSIP_NS // CHECKUP_GOSSIP_REPEAT_NS


class GossipCheckup:
    """Gossip of one process: `name` and `service` are those that it has or will have as a member."""

    def __init__(self, config: ProcessConfig, keys: tuple[bytes, ...], name: str, service: str) -> None:
        self._config = config
        self._seal = seal_of(keys)
        self._entropy = SystemEntropy()
        self._me = f"doctor-{self._entropy.hex_128()[:16]}"
        self._name = name
        self._service = service
        self.members: dict[str, Member] = {}
        """By name: those that a seed sees alive, without this process."""

    async def run(self) -> list[HostFinding]:
        """Tries all. `members` is full when it returns."""
        try:
            async with self._own_end() as (heard_at, target):
                return await self._tried(heard_at, target)
        except BadSettings as error:
            return [wrong(f"gossip {self._config.gossips_at}", error.text, error.hint)]

    async def _tried(self, heard_at: str, target: str) -> list[HostFinding]:
        findings = [fine(f"gossip {self._config.gossips_at}", f"others reach it at {heard_at}")]
        if not self._config.seeds:
            findings.append(fine("seeds", "none: other processes have to ask this one"))
        async with asyncio.TaskGroup() as group:
            seeds = [group.create_task(self._seed(seed)) for seed in self._config.seeds if seed != heard_at]
        at_once = asyncio.Semaphore(CHECKUP_AT_ONCE)

        async def try_one(member: Member) -> HostFinding:
            async with at_once:
                return await self._member(member, heard_at, target)

        async with asyncio.TaskGroup() as group:
            members = [group.create_task(try_one(one)) for _, one in sorted(self.members.items())]
        return [*findings, *(one.result() for one in (*seeds, *members))]

    # ------------------------------------------------------------ single tries

    async def _seed(self, seed: str) -> HostFinding:
        """Asks a seed for all the members that it knows."""
        check, port = f"seed {seed}", seed.rpartition(":")[2]
        async with self._end() as end:
            question = Sync(sender=self._me, digest=bytes.fromhex(self._entropy.hex_128())[:8])
            page = await self._ask(end, seed, question, lambda one: one if isinstance(one, MemberPage) else None)
            if page is None and not await asyncio.to_thread(look_up, host_of(seed)):
                return wrong(check, *unknown_host(seed))
            if page is None:
                hint = f"start a process there with the same cluster key, and open UDP port {port} between"
                return wrong(check, "no answer to gossip", hint)
            while page is not None:
                for claim in page.claims:
                    if claim.state in {State.ALIVE, State.SUSPECT} and claim.member.name != self._name:
                        self.members[claim.member.name] = claim.member
                page = await self._next(end, lambda one: one if isinstance(one, MemberPage) else None)
        return fine(check, "answers")

    async def _member(self, member: Member, heard_at: str, target: str) -> HostFinding:
        """Tries the way to a member, and the way back."""
        check = f"gossip with {member.name} at {member.address}"
        port = member.address.rpartition(":")[2]
        async with self._end() as end:
            if not await self._is_answered(end, member, Ping(sender=self._me, number=0, target=member.name)):
                return wrong(check, "no answer", f"open UDP port {port} there for this machine")
            if not await self._is_answered(end, member, self._longest(member)):
                hint = "look for an MTU below 1,280 on the way, and for a firewall that drops long datagrams"
                return wrong(check, "short datagrams arrive, long ones don't", hint)
            request = PingRequest(sender=self._me, number=0, target=target, address=heard_at)
            if not await self._is_answered(end, member, request):
                hint = (
                    f"open UDP port {heard_at.rpartition(':')[2]} here for that machine, or correct advertise or gossip"
                )
                return wrong(check, f"it does not reach this machine at {heard_at}", hint)
        return fine(check, "both ways")

    async def _is_answered(self, end: UdpDatagrams, member: Member, question: Ping | PingRequest) -> bool:
        """Whether an `Ack` of the question's target arrives; the question gets a number that nobody can guess."""
        number: Number = int(self._entropy.hex_128()[:12], 16)
        asked = msgspec.structs.replace(question, number=number)

        def accept(answer: Datagram) -> bool | None:
            if isinstance(answer, Ack) and answer.number == number:
                return answer.target == question.target
            return None

        return bool(await self._ask(end, member.address, asked, accept))

    def _longest(self, member: Member) -> Ping:
        """A ping that fills its datagram with claims that no member remembers."""
        ping = Ping(sender=self._me, number=2**48, target=member.name)
        room_bytes = PAYLOAD_BYTES_MAX - len(encoded(ping)) - CLAIMS_HEADER_BYTES
        nobody = Member(
            name=f"{self._me}-x", address="127.0.0.1:1", role=Role.NODE, service="127.0.0.1:1", node=NodeId(0)
        )
        left = MemberClaim(member=nobody, incarnation=SwimIncarnation(1), state=State.LEFT)
        return msgspec.structs.replace(ping, claims=(left,) * (room_bytes // len(encoded(left))))

    # ------------------------------------------------------------ datagrams

    async def _ask(
        self, end: UdpDatagrams, address: str, question: Datagram, accept: Callable[[Datagram], A | None]
    ) -> A | None:
        """Sends the question again and again, until an answer is accepted; None if none is in time."""
        for _ in range(_REPEATS):
            self._send(end, address, question)
            answer = await self._next(end, accept)
            if answer is not None:
                return answer
        return None

    async def _next(self, end: UdpDatagrams, accept: Callable[[Datagram], A | None]) -> A | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REPEAT_S):
                while True:
                    source, blob = await end.receive()
                    opened = self._seal.open(blob, source)
                    answer = accept(opened) if isinstance(opened, Datagram) else None
                    if answer is not None:
                        return answer
        return None

    def _send(self, end: UdpDatagrams, address: str, datagram: Datagram) -> None:
        end.send(address, self._seal.seal(datagram, address, bytes.fromhex(self._entropy.hex_128())))

    @asynccontextmanager
    async def _end(self) -> AsyncGenerator[UdpDatagrams]:
        """A free port of the address where the process gossips."""
        host = self._config.gossips_at.rpartition(":")[0]
        end = await udp.listen(f"{host}:0")
        try:
            yield end
        finally:
            await end.close()

    @asynccontextmanager
    async def _own_end(self) -> AsyncGenerator[tuple[str, str]]:
        """Where others reach gossip of this process, and under which name somebody answers there meanwhile."""
        try:
            end = await udp.listen(self._config.gossips_at)
        except BadSettings as error:
            running = self._config.directory / GOSSIP_FILE
            if error.code != ErrorCode.PORT_IN_USE or not running.exists():
                raise
            yield running.read_text(), self._name
            return
        try:
            async with asyncio.TaskGroup() as group:
                answering = group.create_task(self._answer(end))
                yield self._config.gossip_advertised(end.address, self._service), self._me
                answering.cancel()
        finally:
            await end.close()

    async def _answer(self, end: UdpDatagrams) -> None:
        while True:
            source, blob = await end.receive()
            ping = self._seal.open(blob, source)
            if isinstance(ping, Ping) and ping.target == self._me:
                self._send(end, source, Ack(sender=self._me, number=ping.number, target=self._me))
