"""Breaks of checkpoints and trimming of a replicated log."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

MUTANTS = (
    Mutant(
        name="a trim before the checkpoint",
        invariant="INV-LOG-2",
        rule="the log below MM is deleted only once the checkpoint that holds it is the newest",
        edits=(
            Edit(
                "Upkeep._checkpoint",
                "checkpoint = LogCheckpoint(position=position, minimum=minimum, chunks=tuple(written))",
                "...\nawait self._log.trim(checkpoint)",
            ),
        ),
        hunters=("tests/unit/metastorage/test_upkeep.py::test_a_crash_at_any_request_loses_nothing",),
        unseen="a leader seldom ends between the two, and then with replicas that need none of it",
    ),
)
