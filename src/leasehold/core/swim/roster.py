"""The members that one member knows: the newest claim about each, and the order in which they are probed."""

import hashlib
from collections.abc import Callable, Iterator

import msgspec

from leasehold.core.swim.codec import encoded
from leasehold.core.swim.messages import Member, MemberClaim, State, SwimIncarnation
from leasehold.core.swim.suspicion import Suspicion


class Entry(msgspec.Struct, eq=False):
    """A known member; `since_ns` is when it got into its state."""

    claim: MemberClaim
    since_ns: int
    size_bytes: int
    digest: int
    suspicion: Suspicion | None = None

    @property
    def state(self) -> State:
        return self.claim.state

    @property
    def lives(self) -> bool:
        """Alive, or only suspected not to be."""
        return self.claim.state in {State.ALIVE, State.SUSPECT}


def digest_of(member: Member, incarnation: SwimIncarnation) -> int:
    """64 bits that stand for a living member in the sum over all."""
    said = encoded(member) + incarnation.to_bytes(8, "big")
    return int.from_bytes(hashlib.sha256(said).digest()[:8], "big")


class Roster:
    """The others. `draw(n)` gives a random number from 0 to n - 1, drawn outside."""

    def __init__(self, draw: Callable[[int], int]) -> None:
        self._draw = draw
        self._entries: dict[str, Entry] = {}
        self._suspects: dict[str, Entry] = {}
        self._ring: list[str] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, name: str) -> Entry | None:
        return self._entries.get(name)

    def entries(self) -> Iterator[Entry]:
        """All, in no particular order."""
        return iter(self._entries.values())

    def living(self) -> list[Entry]:
        return [one for one in self._entries.values() if one.lives]

    def put(self, claim: MemberClaim, now_ns: int) -> Entry:
        """Takes a claim over; the caller has compared it with what was known."""
        name = claim.member.name
        known = self._entries.get(name)
        since_ns = now_ns if known is None or known.state is not claim.state else known.since_ns
        entry = Entry(
            claim=claim,
            since_ns=since_ns,
            size_bytes=len(encoded(claim)),
            digest=digest_of(claim.member, claim.incarnation),
        )
        self._entries[name] = entry
        self._suspects.pop(name, None)
        if known is None:
            # Anywhere in the round, so that members do not all probe a newcomer at the same time.
            self._ring.insert(self._draw(len(self._ring) + 1), name)
        return entry

    def accuse(self, entry: Entry, suspicion: Suspicion) -> None:
        entry.suspicion = suspicion
        self._suspects[entry.claim.member.name] = entry

    def acquit(self) -> None:
        for entry in self._suspects.values():
            entry.suspicion = None
        self._suspects.clear()

    def suspicions(self) -> list[Suspicion]:
        return [one.suspicion for one in self._suspects.values() if one.suspicion is not None]

    def convicted(self, now_ns: int) -> list[Entry]:
        """Suspects whose deadline has passed."""
        return [one for one in self._suspects.values() if one.suspicion and now_ns >= one.suspicion.deadline_ns]

    def forget(self, name: str) -> None:
        """Knows nothing of that member any more."""
        del self._entries[name]
        self._suspects.pop(name, None)
        self._ring.remove(name)

    def digest(self) -> int:
        """The sum over those that live: equal where the same is known of them, suspicions aside."""
        return sum(one.digest for one in self._entries.values() if one.lives)

    def next_probed(self) -> Entry | None:
        """The next of a round over all that live; each round has an order of its own."""
        for _ in range(len(self._ring) + 1):
            if self._next >= len(self._ring):
                self._shuffle()
                self._next = 0
            if not self._ring:
                return None
            entry = self._entries[self._ring[self._next]]
            self._next += 1
            if entry.lives:
                return entry
        return None

    def some(self, count: int, but: str = "") -> list[Entry]:
        """Up to `count` that live, drawn at random."""
        return self.drawn([one for one in self.living() if one.claim.member.name != but], count)

    def drawn(self, among: list[Entry], count: int) -> list[Entry]:
        """Up to `count` of these."""
        for place in range(min(count, len(among))):
            other = place + self._draw(len(among) - place)
            among[place], among[other] = among[other], among[place]
        return among[:count]

    def _shuffle(self) -> None:
        ring = self._ring
        for place in range(len(ring) - 1, 0, -1):
            other = self._draw(place + 1)
            ring[place], ring[other] = ring[other], ring[place]
