"""What a client is handed, held against what has returned to it (INV-SERVE-1)."""

import pytest

from leasehold.ids import Revision
from leasehold.testing.invariants import named
from leasehold.testing.oracle import InvariantViolated, Oracle
from leasehold.testing.simulation import simulate

SEEDS = (12, *range(50))
"""The first one is enough as a rule: few seeds have such a reader."""


def test_a_batch_from_before_a_statement_that_had_returned_to_its_client_is_caught() -> None:
    oracle = Oracle(named("INV-SERVE-1"), now_ns=lambda: 0, seed=1, command="again")
    oracle.handed_out(Revision(5), Revision(5))
    oracle.check()
    oracle.handed_out(Revision(4), Revision(5))
    with pytest.raises(InvariantViolated, match="a batch of 4, 5 had returned to it"):
        oracle.check()


def test_a_reader_takes_away_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """And reads on: else the invariant would have nothing to look at."""
    handed: list[bool] = []

    def handed_out(_oracle: Oracle, released: Revision, returned: Revision) -> None:
        assert released >= returned
        handed.append(returned > 0)

    monkeypatch.setattr(Oracle, "handed_out", handed_out)
    for seed in SEEDS:
        simulate(seed)
        if sum(handed) > 10:
            return
    pytest.fail("no seed hands out anything after something has returned")
