"""The coordinators that a node knows, and which of them it asks next."""

import asyncio
import logging
from collections.abc import Collection
from typing import TypeVar

from leasehold.core.membership.coordinators import told_addresses
from leasehold.core.membership.proofs import ProofKeys
from leasehold.core.membership.turns import Turns
from leasehold.core.words.messages import ClusterFacts, Message, WhoAreYou
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, Indefinite, LeaseholdError, NotInitialised, NotLeader, unexpected_answer
from leasehold.ids import ClusterId
from leasehold.limits.clients import RETRY_PAUSE_NS, ROLE_TIMEOUT_NS
from leasehold.limits.membership import COORDINATORS_KNOWN_MAX, CUT_OFF_TOLD_NS
from leasehold.wire.ports import Clock, Connection, Duplex, Entropy, Transport, Vault
from leasehold.wire.proven_coordinator import ProvenCoordinator

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)


class KnownCoordinators:
    """Up to COORDINATORS_KNOWN_MAX addresses, asked in turn: after each failure the next one, or the leader that a
    coordinator names, if it is one of them.

    Addresses that a person has given come first, then those in the catalog, then those that the physical topology
    shows, then remembered ones, then those that a process has told which need not be a coordinator: so they keep no
    other one out. Only given ones are trusted to be of this cluster: any other one that serves another cluster is
    skipped. With `keys`, a coordinator has to prove itself before it gets a secret.
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
        self._listed: tuple[str, ...] = ()
        self._found: tuple[str, ...] = ()
        self._remembered: tuple[str, ...] = ()
        self._told: tuple[str, ...] = ()
        self.addresses = given
        self.cluster_id: ClusterId | None = None
        """The one that this node belongs to, once it knows."""
        self._transport = transport
        self._clock = clock
        self._turn = 0
        self._turns = Turns()
        self.asked = ""
        """The address that was asked last."""
        self._stored: tuple[str, ...] | None = None
        self._any = asyncio.Event()
        self._said_uninitialised = False
        self._said_foreign: frozenset[str] = frozenset()
        self._say_cut_off_ns = 0
        if given:
            self._any.set()

    @property
    def present(self) -> str:
        return self.addresses[self._turn % len(self.addresses)]

    def asked_first(self) -> tuple[str, ...]:
        """All addresses, that of the coordinator that was asked last first."""
        return tuple(dict.fromkeys((self.asked, *self.addresses)))

    def remember(self, known: tuple[str, ...]) -> None:
        """Adds coordinators that an earlier process has stored."""
        self._remembered = (*self._remembered, *known)[:COORDINATORS_KNOWN_MAX]
        self._arrange()

    def listed(self, addresses: Collection[str]) -> None:
        """The catalog shows these. An empty list changes nothing: then one coordinator has the meta storage for itself,
        or the catalog is not there yet."""
        if addresses and set(addresses) != set(self._listed):
            self._listed = tuple(sorted(addresses))[:COORDINATORS_KNOWN_MAX]
            self._arrange()

    def told(self, addresses: tuple[str, ...]) -> None:
        """The process that answered last, which has proven nothing, tells of these."""
        self._told = addresses
        self._arrange()

    def found(self, addresses: tuple[str, ...]) -> None:
        """The physical topology shows these now. An empty view of it changes nothing."""
        if addresses:
            self._found = addresses[:COORDINATORS_KNOWN_MAX]
            self._arrange()

    def _arrange(self) -> None:
        before = self.addresses
        known = (*self._given, *self._listed, *self._found, *self._remembered, *self._told)
        self.addresses = tuple(dict.fromkeys(known))[:COORDINATORS_KNOWN_MAX]
        self._said_foreign &= frozenset(self.addresses)
        if not self.addresses:
            return
        self._any.set()
        whose = before[self._turn % len(before)] if before else self.addresses[0]
        if whose in self.addresses:
            self._turn = self.addresses.index(whose)

    def connect(self) -> Connection:
        """A connection to the coordinator whose turn it is; the caller closes it."""
        self.asked = self.present
        return self._transport.connect(self.asked)

    async def session(self, connection: Connection, cluster_id: ClusterId) -> Duplex:
        """A stream to the coordinator that was asked last. Raises `Refused` (COORDINATOR_UNPROVEN) too."""
        return await self._proven.session(connection, self.asked, cluster_id)

    async def next(self, error: LeaseholdError | None = None) -> None:
        """Turns to the next coordinator, or to the leader that the `error` names, after RETRY_PAUSE_NS."""
        if isinstance(error, NotLeader) and error.leader not in {"", *self.addresses}:
            await self._look_around()
        self._turn = self._turns.after(self._turn, self.addresses, error)
        await self._clock.sleep_until(self._clock.now_ns() + RETRY_PAUSE_NS)

    async def _look_around(self) -> None:
        """Asks the coordinator that was asked last for the others: one of them leads, and is not known here."""
        connection = self._transport.connect(self.asked)
        try:
            facts = await connection.call(WhoAreYou(), timeout_ns=ROLE_TIMEOUT_NS)
        except LeaseholdError:
            return
        finally:
            await connection.close()
        if isinstance(facts, ClusterFacts) and facts.cluster_id == self.cluster_id:
            self.told(told_addresses(facts))

    def say_if_keyless(self) -> None:
        """Warns if this node can't tell coordinators from others."""
        if self._keys is None and not self._transport.checks_peers:
            log.warning(
                "this node has no cluster key: it can't tell a coordinator from another process at the same address,"
                " and sends its secrets to both; give it --tls FOLDER, or --cluster-key FILE"
            )

    def say_uninitialised(self) -> None:
        """Warns once that there is no cluster yet."""
        if not self._said_uninitialised:
            self._said_uninitialised = True
            log.warning("the cluster is not initialised, waiting: run `leasehold init %s`", self.asked)

    def say_cut_off(self, error: LeaseholdError) -> None:
        """Warns, at most each CUT_OFF_TOLD_NS, why this node can't follow or join."""
        now_ns = self._clock.now_ns()
        if now_ns >= self._say_cut_off_ns:
            self._say_cut_off_ns = now_ns + CUT_OFF_TOLD_NS
            log.warning("cut off from the coordinators, retrying: %s", error)

    async def passes_over(self, refusal: Definite, *, is_new: bool = False) -> bool:
        """Whether this refusal only means that the next coordinator has to be asked; then it is its turn now.

        That is so if the coordinator serves another cluster and its address was not given by a person, or if it does
        not prove that it is a coordinator. A new node ends instead if the address was given: it, or the key, is wrong.
        """
        is_unproven = refusal.code == ErrorCode.COORDINATOR_UNPROVEN
        if not is_unproven and refusal.code not in {ErrorCode.OTHER_CLUSTER, ErrorCode.NOT_A_MEMBER}:
            return False
        if self.asked in self._given and (is_new or not is_unproven):
            return False
        if self.asked not in self._said_foreign:
            self._said_foreign |= {self.asked}
            log.warning("ignoring the coordinator at %s: %s", self.asked, refusal)
        elif is_unproven:
            self.say_cut_off(refusal)
        await self.next()
        return True

    async def keep(self, vault: Vault) -> None:
        """The coordinator that was asked last is of this cluster: stores its address in the vault."""
        self._say_cut_off_ns = 0
        self._said_foreign -= {self.asked}
        if self.asked not in (*self._given, *self._remembered):
            self._remembered = (self.asked, *self._remembered)[:COORDINATORS_KNOWN_MAX]
        lasting = tuple(dict.fromkeys((*self._given, *self._listed, *self._remembered)))[:COORDINATORS_KNOWN_MAX]
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
                answer = await self._proven.call(connection, self.asked, request)
            except NotInitialised:
                self.say_uninitialised()
                await self.next()
                continue
            except (Indefinite, NotLeader) as error:
                failures += 1
                if failures >= len(self.addresses):
                    self.say_cut_off(error)
                await self.next(error)
                continue
            finally:
                await connection.close()
            if not isinstance(answer, kinds):
                raise unexpected_answer(answer)
            return answer
