"""How long a member stays suspected: the longer the fewer confirm it (Lifeguard, Dadgar et al. 2018)."""

import math

import msgspec

from leasehold.limits.swim import SWIM_CONFIRMATIONS, SWIM_PERIOD_NS, SWIM_SUSPICION_PERIODS, SWIM_SUSPICION_STRETCH


class Suspicion(msgspec.Struct, eq=False):
    """Of one member at one incarnation, as counted here."""

    began_ns: int
    shortest_ns: int
    wanted: int
    """Confirmations that make it as short as can be."""
    accusers: set[str]

    @property
    def deadline_ns(self) -> int:
        """When the member counts as dead, unless it has refuted that by then."""
        if self.wanted == 0:
            return self.began_ns + self.shortest_ns
        longest_ns = self.shortest_ns * SWIM_SUSPICION_STRETCH
        share = math.log(len(self.accusers)) / math.log(self.wanted + 1)
        return self.began_ns + max(self.shortest_ns, longest_ns - int((longest_ns - self.shortest_ns) * share))

    def confirm(self, accuser: str) -> bool:
        """Counts an accuser; False for one that changes nothing any more."""
        if accuser in self.accusers or len(self.accusers) > self.wanted:
            return False
        self.accusers.add(accuser)
        return True


def suspect(accuser: str, members: int, now_ns: int) -> Suspicion:
    return Suspicion(
        began_ns=now_ns,
        shortest_ns=shortest_ns(members),
        wanted=max(0, min(SWIM_CONFIRMATIONS, members - 2)),
        accusers={accuser},
    )


def shortest_ns(members: int) -> int:
    """Grows with the logarithm of the number of members, as the time that news takes does."""
    return int(SWIM_PERIOD_NS * SWIM_SUSPICION_PERIODS * max(1.0, math.log10(members)))
