"""A script in the place of coordinators, asked in virtual time."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

from leasehold.core.data.asking import Asking
from leasehold.core.data.coordinator_calls import LoginCalls
from leasehold.core.data.coordinator_client import CoordinatorClient
from leasehold.core.words.messages import Login, Message
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.ids import ClusterId, LoginToken
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.steps import TaskRuntime

CLUSTER = ClusterId("c")
SECONDS = Asking(2 * SECOND_NS)
CALL_NS = 10 * MILLISECOND_NS
"""So long each call takes."""

Answer = Message | LeaseholdError
Script = Callable[[str, Message], Answer | list[Answer] | None]
"""What is answered; with None nothing, for as long as the caller waits."""


class Coordinators:
    """The port: answers by a script, and keeps what was asked, by whom it was to be answered, and when."""

    def __init__(self, script: Script) -> None:
        self.asked: list[tuple[str, Message, int]] = []
        self.timeouts_ns: list[int] = []
        self._script = script

    async def call(self, address: str, request: Message, timeout_ns: int) -> Message:
        async for message in self.stream(address, request, timeout_ns):
            return message
        raise AssertionError("the script has an answer")

    async def stream(self, address: str, request: Message, timeout_ns: int) -> AsyncGenerator[Message, None]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.asked.append((address, request, loop.now_ns()))
        self.timeouts_ns.append(timeout_ns)
        answers = self._script(address, request)
        if answers is None:
            await asyncio.sleep(timeout_ns / SECOND_NS)
            raise Unreachable(f"{address}: no answer within {timeout_ns} ns")
        for answer in answers if isinstance(answers, list) else [answers]:
            await asyncio.sleep(min(CALL_NS, timeout_ns) / SECOND_NS)
            if timeout_ns < CALL_NS:
                raise Unreachable(f"{address}: no answer within {timeout_ns} ns")
            if isinstance(answer, LeaseholdError):
                raise answer
            yield answer

    @property
    def addresses(self) -> list[str]:
        """Who was asked, one after the other."""
        return [address for address, _, _ in self.asked]


Steps = Callable[[CoordinatorClient], Awaitable[object]]


def ask(
    script: Script,
    steps: Steps,
    *,
    addresses: tuple[str, ...] = ("a:1", "b:1"),
    password: tuple[str, str] | None = None,
    token: LoginToken | None = None,
    learns: bool = False,
) -> tuple[Coordinators, object, int]:
    """The port after `steps`, what they answered or raised, and how long that took."""
    ended: list[tuple[Coordinators, object, int]] = []

    async def main(_random: object) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        port, runtime = Coordinators(script), TaskRuntime(SimulatedClock(loop))
        login = None if password is None else Login(cluster_id=None, user=password[0], password=password[1])
        calls = LoginCalls(port, runtime, lambda: login, token=token)
        client = CoordinatorClient(calls, addresses, runtime, learns=learns)
        began_ns = loop.now_ns()
        try:
            end = await steps(client)
        except LeaseholdError as error:
            end = error
        ended.append((port, end, loop.now_ns() - began_ns))

    run_virtual(main, 1)
    return ended[0]


def in_order(answers: Iterable[Answer]) -> Script:
    """Answers so, whoever is asked; the last one from then on."""
    left = list(answers)
    return lambda *_: left.pop(0) if len(left) > 1 else left[0]
