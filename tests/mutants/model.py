"""What a mutant is: a patch of production code that breaks one rule, and who is expected to notice."""

from typing import NamedTuple

from tests.mutants.patch import Edit

PACKAGE = "LEASEHOLD_MUTANT_PACKAGE"
"""The environment variable that names the folder of the patched copy."""
LEASE_WORLD = ("guard", "Holder.step", "Grantor", "Barrier.reported", "outlast_ns")
"""Definitions of the modules that the lease world runs; a break of any other module can't show there."""


class Mutant(NamedTuple):
    """One rule broken. `hunters` are pytest ids, tried in this order; the worlds hunt by seed beside them."""

    name: str
    invariant: str
    """Its id in docs/protocols.md: the check that is expected to fire, and that the worlds hunt with first."""
    rule: str
    """What the sound code does."""
    edits: tuple[Edit, ...]
    hunters: tuple[str, ...] = ()
    fact: str | None = None
    """The item of the model checker's list that it is, if it is one (`FACTS`)."""
    unseen: str = ""
    """Why a random cluster does not show it, where it does not."""


FACTS = (
    "deadline from the receive time",
    "no floor",
    "a new leader that doesn't wait",
    "guard only at the start",
    "no drift factor",
    "a closed connection as proof of death",
    "a join that doesn't wait",
    "an old incarnation heard",
    "an old or doubled surrender heard",
    "a leader's transaction without its term",
    "leadership deadline without drift",
    "incarnation used before it is durable",
    "acks kept across a join",
    "PROCEED kept only in memory",
    "LM read before winning",
    "view read before the clock",
    "leadership checked before the request is taken from the queue",
    "same nonce, same answer for two sessions",
)
"""The breaks that a model checker of the protocol had caught before it was built."""
