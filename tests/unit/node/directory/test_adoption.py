"""Adopting an older copy of a node's directory, against a coordinator that answers as it is told to."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.messages import AskIncarnation, ClusterFacts, JoinWait, Message, NewestIncarnation, WhoAreYou
from leasehold.core.words.operations import RevisionChanges
from leasehold.core.words.records import Allocated, Claiming, ClusterRecord, IdentityRecord, Joining
from leasehold.errors import BadDirectory, BadSettings, Definite, NotFound, NotLeader, Refused, Unreachable
from leasehold.ids import ClusterId, Generation, Incarnation, LineageHash, NodeId, Nonce, Revision, Term, Token
from leasehold.limits.clients import STATEMENT_RESOLVE_NS
from leasehold.limits.membership import ADOPT_WAIT_MAX_NS
from leasehold.limits.units import SECOND_NS
from leasehold.node.directory.adoption import Adopted, Adopting, adopt_directory
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.loop import run_virtual
from leasehold.testing.vault import VaultDisk
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.ports import Vault

CLUSTER, TOKEN, NODE = ClusterId("c" * 32), Token("1" * 32), NodeId(3)
COPY = Allocated(token=TOKEN, node=NODE, cluster_id=CLUSTER, incarnation=Incarnation(2), nonce=Nonce("4" * 32))
JOINING = Joining(token=TOKEN, node=NODE, cluster_id=CLUSTER, previous=Incarnation(2), nonce=Nonce("5" * 32))
NEWEST = NewestIncarnation(incarnation=Incarnation(7), name="n3")
ADOPTED = Allocated(token=TOKEN, node=NODE, cluster_id=CLUSTER, incarnation=Incarnation(7), nonce=None, unverified=True)
FACTS = ClusterFacts(cluster_id=CLUSTER, generation=Generation(1), term=Term(1), leader=True)
FOLLOWED = RevisionChanges(
    Revision(7),
    (put(keys.CLUSTER, ClusterRecord(cluster_id=CLUSTER, generation=Generation(1), format_version=1)),),
)
LATER = msgspec.structs.replace(FACTS, generation=Generation(9))
"""Of a cluster that was recovered from an older state."""
KEPT = Path("D/before-adopt-1")
Answer = Message | Exception


class Coordinators:
    """Answers what comes next, and the last of it for ever. Implements `Transport` and `Connection`."""

    checks_peers = False
    certificate_ends_s = None

    def __init__(self, *answers: Answer, facts: Answer = FACTS) -> None:
        self._answers = list(answers)
        self._facts = facts
        self.asked: list[tuple[str, Message]] = []
        self._address = ""

    def connect(self, address: str) -> "Coordinators":
        self._address = address
        return self

    async def call(self, request: Message, *, timeout_ns: int) -> Message:
        assert timeout_ns > 0
        self.asked.append((self._address, request))
        if isinstance(request, WhoAreYou):
            answer = self._facts
        else:
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        pass


class Adoption:
    """What came of an attempt."""

    def __init__(self) -> None:
        self.adopted: Adopted | None = None
        self.error: Exception | None = None
        self.waits: list[int] = []
        self.record: IdentityRecord | None = None
        self.applied = Revision(0)
        self.took_ns = 0
        self.set_aside: list[Path] = []


def adopting(
    record: IdentityRecord | None,
    coordinators: Coordinators,
    *,
    given: tuple[str, ...] = ("c1:1",),
    known: tuple[str, ...] = (),
    applied: RevisionChanges | None = None,
    wrap: Callable[[Vault], Vault] = lambda vault: vault,
    no_room: bool = False,
) -> Adoption:
    """One attempt on a vault with that record; what the disk holds is read afterwards, by another process."""
    found = Adoption()

    def set_aside() -> Path:
        if no_room:
            raise BadDirectory("no space is left", code="NOT_SET_ASIDE", hint="free some")
        found.set_aside.append(KEPT)
        return KEPT

    async def main(_random: object) -> None:
        loop = asyncio.get_running_loop()
        disk = VaultDisk()
        vault = disk.open()
        if record is not None:
            await vault.write_identity(record)
        await vault.write_coordinators(known)
        if applied is not None:
            await vault.apply((applied,), LineageHash(b"h" * 32))
        clock = SimulatedClock(loop)
        began_ns = clock.now_ns()
        told = found.waits.append
        attempt = Adopting(
            Path("D"), wrap(vault), given, coordinators, clock, told, entropy=SystemEntropy(), set_aside=set_aside
        )
        try:
            found.adopted = await attempt.adopt()
        except Exception as error:  # noqa: BLE001 it is what is looked at
            found.error = error
        found.took_ns = clock.now_ns() - began_ns
        await vault.close()
        after = disk.open()
        found.record = await after.identity()
        found.applied = (await after.projection()).applied

    run_virtual(main, 1)
    return found


@pytest.mark.parametrize("record", [COPY, JOINING])
def test_a_copy_takes_the_newest_incarnation_and_is_believed_in_nothing(record: IdentityRecord) -> None:
    coordinators = Coordinators(NEWEST)
    found = adopting(record, coordinators)
    assert found.adopted == Adopted(
        node=NODE, name="n3", before=Incarnation(2), incarnation=Incarnation(7), changed=True
    )
    assert found.record == ADOPTED
    assert coordinators.asked[-1] == ("c1:1", AskIncarnation(cluster_id=CLUSTER, token=TOKEN, node=NODE))


@pytest.mark.parametrize(("facts", "applied", "kept"), [(FACTS, 7, None), (LATER, 0, KEPT)])
def test_what_was_applied_is_kept_in_its_own_generation_alone(
    facts: ClusterFacts, applied: int, kept: Path | None
) -> None:
    """A cluster that was recovered from an older state knows nothing of it: it is set aside for people."""
    found = adopting(COPY, Coordinators(NEWEST, facts=facts), applied=FOLLOWED)
    assert found.record == ADOPTED
    assert found.applied == applied
    assert found.set_aside == ([] if kept is None else [kept])
    assert found.adopted is not None
    assert found.adopted.kept == kept


def test_nothing_is_forgotten_that_could_not_be_set_aside() -> None:
    found = adopting(COPY, Coordinators(NEWEST, facts=LATER), applied=FOLLOWED, no_room=True)
    assert isinstance(found.error, BadDirectory)
    assert (found.record, found.applied) == (COPY, 7)
    assert adopting(COPY, Coordinators(NEWEST), applied=FOLLOWED, no_room=True).record == ADOPTED


def test_the_newest_directory_is_left_as_it_is() -> None:
    newest = NewestIncarnation(incarnation=Incarnation(2), name="n3")
    for record in (COPY, JOINING):
        found = adopting(record, Coordinators(newest))
        assert found.adopted is not None
        assert not found.adopted.changed
        assert found.record == record


def test_it_waits_for_a_lease_and_says_so() -> None:
    found = adopting(COPY, Coordinators(JoinWait(wait_ns=3 * SECOND_NS), JoinWait(wait_ns=2 * SECOND_NS), NEWEST))
    assert found.waits == [3 * SECOND_NS, 2 * SECOND_NS]
    assert found.took_ns >= 2 * SECOND_NS
    assert found.record == ADOPTED


def test_it_does_not_wait_for_ever() -> None:
    found = adopting(COPY, Coordinators(JoinWait(wait_ns=3 * SECOND_NS)))
    assert isinstance(found.error, Unreachable)
    assert ADOPT_WAIT_MAX_NS <= found.took_ns < ADOPT_WAIT_MAX_NS + 2 * SECOND_NS
    assert found.record == COPY


@pytest.mark.parametrize("code", ["WRONG_TOKEN", "REMOVED", "ALIVE_ELSEWHERE", "UNKNOWN_NODE"])
def test_what_the_leader_refuses_changes_nothing(code: str) -> None:
    found = adopting(COPY, Coordinators(Refused("no", code=code, hint="why")))
    assert isinstance(found.error, Refused)
    assert found.error.code == code
    assert "`leasehold node reset --dir D`" in found.error.hint
    assert found.record == COPY


def test_a_directory_of_another_cluster_or_ahead_of_this_one_is_refused() -> None:
    other = ClusterFacts(cluster_id=ClusterId("d" * 32), generation=Generation(1), term=Term(1), leader=True)
    for coordinators, code in (
        (Coordinators(NEWEST, facts=other), "OTHER_CLUSTER"),
        (Coordinators(NewestIncarnation(incarnation=Incarnation(1), name="n3")), "AHEAD_OF_CLUSTER"),
        (Coordinators(FACTS), "BAD_MESSAGE"),
    ):
        found = adopting(COPY, coordinators)
        assert isinstance(found.error, Definite)
        assert (found.error.code, bool(found.error.hint)) == (code, True)
        assert found.record == COPY


@pytest.mark.parametrize("record", [None, Claiming(token=TOKEN)])
def test_a_vault_without_an_id_has_nothing_to_go_on_with(record: IdentityRecord | None) -> None:
    found = adopting(record, Coordinators(NEWEST))
    assert isinstance(found.error, NotFound)
    assert found.error.code == "NO_IDENTITY"
    assert found.record == record


def test_coordinators_are_asked_in_turn_those_that_it_knows_too() -> None:
    lost, follower = Unreachable("no answer", hint="ask"), NotLeader("not the leader", hint="ask")
    coordinators = Coordinators(lost, follower, NEWEST)
    found = adopting(COPY, coordinators, known=("c2:1", "c1:1"))
    assert found.record == ADOPTED
    assert [address for address, _ in coordinators.asked] == ["c1:1", "c1:1", "c2:1", "c1:1"]
    alone = adopting(COPY, Coordinators(NEWEST), given=(), known=("c2:1",))
    assert alone.record == ADOPTED


def test_nobody_answers() -> None:
    found = adopting(COPY, Coordinators(NEWEST, facts=Unreachable("no answer", hint="ask")))
    assert isinstance(found.error, Unreachable)
    assert STATEMENT_RESOLVE_NS <= found.took_ns < STATEMENT_RESOLVE_NS + SECOND_NS
    nobody = adopting(COPY, Coordinators(NEWEST), given=())
    assert isinstance(nobody.error, BadSettings)
    assert nobody.error.code == "NO_COORDINATOR"


class Crashing:
    """A vault whose process ends at the write, before or after it."""

    def __init__(self, vault: Vault, *, after: bool) -> None:
        self._vault = vault
        self._after = after

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        return getattr(self._vault, name)

    async def write_identity(self, record: IdentityRecord) -> None:
        await self._write(self._vault.write_identity, record)

    async def begin_anew(self, record: IdentityRecord) -> None:
        await self._write(self._vault.begin_anew, record)

    async def _write(self, write: Callable[[IdentityRecord], Awaitable[None]], record: IdentityRecord) -> None:
        if self._after:
            await write(record)
        raise KeyError("the process ended")


@pytest.mark.parametrize("facts", [FACTS, LATER])
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_leaves_it_adopted_or_as_it_was_and_the_next_attempt_ends_it(after: bool, facts: ClusterFacts) -> None:
    def crashing(vault: Vault) -> Vault:
        return Crashing(vault, after=after)  # type: ignore[return-value]

    crashed = adopting(COPY, Coordinators(NEWEST, facts=facts), applied=FOLLOWED, wrap=crashing)
    assert isinstance(crashed.error, KeyError)
    assert crashed.record == (ADOPTED if after else COPY)
    assert crashed.applied == (0 if after and facts is LATER else 7)
    assert crashed.set_aside == ([KEPT] if facts is LATER else []), "before anything is forgotten"
    held = None if crashed.applied == 0 else FOLLOWED
    assert adopting(crashed.record, Coordinators(NEWEST, facts=facts), applied=held).record == ADOPTED


def test_a_directory_without_a_vault_is_not_given_one(tmp_path: Path) -> None:
    (tmp_path / "segments").mkdir()

    async def attempt(_random: object) -> None:
        await adopt_directory(
            tmp_path,
            ("c1:1",),
            transport=Coordinators(NEWEST),  # type: ignore[arg-type]
            clock=SimulatedClock(asyncio.get_running_loop()),
            entropy=SystemEntropy(),
            on_wait=lambda _: None,
        )

    with pytest.raises(NotFound) as caught:
        run_virtual(attempt, 1)
    assert caught.value.code == "NO_NODE"
    assert [path.name for path in tmp_path.iterdir()] == ["segments"]
