"""The coordinators that a node knows, and which of them it asks."""

import asyncio
import logging
from typing import TypeVar

from leasehold.core.membership.proofs import ProofKeys
from leasehold.core.words.messages import Message
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadMessage, Definite, Indefinite, LeaseholdError, NotInitialised, NotLeader
from leasehold.ids import ClusterId
from leasehold.limits.clients import RETRY_PAUSE_NS
from leasehold.limits.membership import COORDINATORS_KNOWN_MAX, CUT_OFF_TOLD_NS
from leasehold.wire.ports import Clock, Connection, Duplex, Entropy, Transport, Vault
from leasehold.wire.proven_coordinator import ProvenCoordinator

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)


class KnownCoordinators:
    """Asked in turn: the next one after each failure.

    Those that were given come first, then those that the physical topology shows, then those of earlier times;
    COORDINATORS_KNOWN_MAX in all. A person vouches for those given alone: another one that turns out to serve another
    cluster is passed over. With `keys`, each has to prove itself before it is sent a secret.
    """

    def __init__(
        self,
        given: tuple[str, ...],
        transport: Transport,
        clock: Clock,
        entropy: Entropy,
        keys: ProofKeys | None = None,
    ) -> None:
        self._keys = keys
        self._proven = ProvenCoordinator(keys, clock, entropy)
        self._given = given
        self._found: tuple[str, ...] = ()
        self._remembered: tuple[str, ...] = ()
        self.addresses = given
        self._transport = transport
        self._clock = clock
        self._turn = 0
        self._asked = ""
        self._stored: tuple[str, ...] | None = None
        self._any = asyncio.Event()
        self._said_uninitialised = False
        self._said_foreign: frozenset[str] = frozenset()
        self._say_cut_off_ns = 0
        """From when on it is said again."""
        if given:
            self._any.set()

    @property
    def present(self) -> str:
        """The address of the one whose turn it is."""
        return self.addresses[self._turn % len(self.addresses)]

    @property
    def asked(self) -> str:
        """The address of the one that was asked last."""
        return self._asked

    def remember(self, known: tuple[str, ...]) -> None:
        """Adds those of earlier times."""
        self._remembered = (*self._remembered, *known)[:COORDINATORS_KNOWN_MAX]
        self._arrange()

    def found(self, addresses: tuple[str, ...]) -> None:
        """The physical topology shows these now, instead of those before. That it shows none teaches nothing."""
        if addresses:
            self._found = addresses[:COORDINATORS_KNOWN_MAX]
            self._arrange()

    def _arrange(self) -> None:
        before = self.addresses
        self.addresses = tuple(dict.fromkeys((*self._given, *self._found, *self._remembered)))[:COORDINATORS_KNOWN_MAX]
        self._said_foreign &= frozenset(self.addresses)
        if not self.addresses:
            return
        self._any.set()
        whose = before[self._turn % len(before)] if before else self.addresses[0]
        if whose in self.addresses:
            self._turn = self.addresses.index(whose)

    def connect(self) -> Connection:
        """A connection to the present one; the caller closes it."""
        self._asked = self.present
        return self._transport.connect(self._asked)

    async def session(self, connection: Connection, cluster_id: ClusterId) -> Duplex:
        """A stream to the one that was connected to last. Raises `Refused` (COORDINATOR_UNPROVEN) too."""
        return await self._proven.session(connection, self._asked, cluster_id)

    async def next(self) -> None:
        """Turns to the next one, after a moment."""
        self._turn += 1
        await self._clock.sleep_until(self._clock.now_ns() + RETRY_PAUSE_NS)

    def say_if_keyless(self) -> None:
        """Warns where this node can not tell coordinators from others."""
        if self._keys is None:
            log.warning(
                "this node has no cluster key: it can't tell a coordinator from another process at the same address,"
                " and sends its secrets to both; give it --cluster-key FILE"
            )

    def say_uninitialised(self) -> None:
        """Says once that there is no cluster yet, and how it comes about."""
        if not self._said_uninitialised:
            self._said_uninitialised = True
            log.warning("the cluster is not initialised, waiting: run `leasehold init %s`", self._asked)

    def say_cut_off(self, error: LeaseholdError) -> None:
        """Says now and then what keeps it from following or joining: whoever waits for this node has nothing else to
        look at."""
        now_ns = self._clock.now_ns()
        if now_ns >= self._say_cut_off_ns:
            self._say_cut_off_ns = now_ns + CUT_OFF_TOLD_NS
            log.warning("cut off from the coordinators, retrying: %s", error)

    async def passes_over(self, refusal: Definite, *, is_new: bool = False) -> bool:
        """Whether the next one is asked after this refusal; then it is its turn now.

        So it is where the one asked last serves another cluster and no person vouches for it, or where it does not
        prove that it is a coordinator. Only a node that `is_new` ends on that, for a person who has just given it the
        wrong address or key: the true coordinator may come back.
        """
        is_unproven = refusal.code == ErrorCode.COORDINATOR_UNPROVEN
        if not is_unproven and refusal.code not in {ErrorCode.OTHER_CLUSTER, ErrorCode.NOT_A_MEMBER}:
            return False
        if self._asked in self._given and (is_new or not is_unproven):
            return False
        if self._asked not in self._said_foreign:
            self._said_foreign |= {self._asked}
            log.warning("ignoring the coordinator at %s: %s", self._asked, refusal)
        elif is_unproven:
            self.say_cut_off(refusal)
        await self.next()
        return True

    async def keep(self, vault: Vault) -> None:
        """Who was asked last has answered as of this cluster: the vault holds it, and no other that was only found."""
        self._say_cut_off_ns = 0
        self._said_foreign -= {self._asked}
        if self._asked not in (*self._given, *self._remembered):
            self._remembered = (self._asked, *self._remembered)[:COORDINATORS_KNOWN_MAX]
        lasting = tuple(dict.fromkeys((*self._given, *self._remembered)))[:COORDINATORS_KNOWN_MAX]
        if lasting != self._stored:
            await vault.write_coordinators(lasting)
            self._stored = lasting

    async def ask(self, request: Message, *kinds: type[M]) -> M:
        """Asks until there is a definite answer, always with the same request (INV-ID-3)."""
        if not self._any.is_set():
            log.info("no coordinator is known: waiting until the physical topology shows one")
            await self._any.wait()
        failures = 0
        while True:
            connection = self.connect()
            try:
                answer = await self._proven.call(connection, self._asked, request)
            except NotInitialised:
                self.say_uninitialised()
                await self.next()
                continue
            except (Indefinite, NotLeader) as error:
                failures += 1
                if failures >= len(self.addresses):
                    self.say_cut_off(error)
                await self.next()
                continue
            finally:
                await connection.close()
            if not isinstance(answer, kinds):
                raise BadMessage(f"unexpected answer: {type(answer).__name__}")
            return answer
