"""Breaks of the move of a meta storage to another place."""

from typing import Final

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

MOVES: Final = ("tests/conformance/test_move.py",)
UNSEEN: Final = "no random cluster moves its meta storage"

MUTANTS = (
    Mutant(
        name="a move that begins before its source is marked",
        invariant="INV-LEASE-3",
        rule="the source of a move is marked before the target can be led",
        edits=(Edit("migrate.ready", "if mark is None: ...", ""),),
        hunters=MOVES,
        unseen=UNSEEN,
    ),
    Mutant(
        name="a move from a log that is led",
        invariant="INV-LEASE-3",
        rule="a log is marked only if nobody has led on it since it was watched",
        edits=(Edit("LogSource.mark", "unchanged[LEADER] = self._standing.version", "pass"),),
        hunters=MOVES,
        unseen=UNSEEN,
    ),
    Mutant(
        name="a move that does not watch the leader",
        invariant="INV-LEASE-3",
        rule="a move waits as long as a challenger before it takes a leader for gone",
        edits=(Edit("unled", "if standing != seen: ...", ""),),
        hunters=MOVES,
        unseen=UNSEEN,
    ),
    Mutant(
        name="two moves that fill one log",
        invariant="INV-LOG-1",
        rule="an entry is put into a log that is filled only by the run that reserved it last",
        edits=(Edit("Log.fill", "{HEAD: head_version}", "{}"),),
        hunters=MOVES,
        unseen=UNSEEN,
    ),
    Mutant(
        name="entries left by an interrupted move",
        invariant="INV-LOG-1",
        rule="a move fills a log that has no entries of an earlier run",
        edits=(Edit("LogMoveTarget._reserve", "await self._delete_entries(version)", "False"),),
        hunters=MOVES,
        unseen=UNSEEN,
    ),
    Mutant(
        name="a move that is not compared",
        invariant="INV-REC-2",
        rule="the source of a move is marked once the copy has been read back and compared",
        edits=(Edit("migrate.ready", "await _compare(content, copied)", ""),),
        hunters=MOVES,
        unseen=UNSEEN,
    ),
    Mutant(
        name="a term begun again after a move",
        invariant="INV-LEASE-3",
        rule="the leader record moves along, so the next term is above all earlier ones",
        edits=(
            Edit(
                "coordinator.migrate",
                "LeaderRecord(generation=cluster.generation, term=leader.term, holder='', beat=0, duration_ns=0)",
                "LeaderRecord(generation=cluster.generation, term=0, holder='', beat=0, duration_ns=0)",
            ),
        ),
        hunters=MOVES,
        unseen=UNSEEN,
    ),
)
