"""Breaks of commit times, and of scans as of a time."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

TIMES = "tests/unit/coordinator/test_commit_times.py"
PLANS = "tests/unit/coordinator/data/test_plans.py"
CLOCKS = "tests/scenarios/test_clocks.py"
UNSEEN = "no client of a random cluster reads the past"

MUTANTS = (
    Mutant(
        name="a time that leaves out what was committed at it",
        invariant="INV-SCAN-1",
        rule="a time stands for the newest revision that was committed by then, also at this very time",
        edits=(Edit("newest_until.is_later", "found > time_us", "found >= time_us"),),
        hunters=(f"{PLANS}::test_a_time_stands_for_the_newest_revision_that_was_committed_by_then",),
        unseen=UNSEEN,
    ),
    Mutant(
        name="commit times that follow a clock set back",
        invariant="INV-SCAN-1",
        rule="commit times never decrease, whatever the wall clock does",
        edits=(Edit("Writer.commit_time_us", "max(self._earliest_us, self._wall_us())", "self._wall_us()"),),
        hunters=(f"{TIMES}::test_commit_times_follow_the_clock_and_never_decrease",),
        unseen=UNSEEN,
    ),
    Mutant(
        name="commit times that each leader begins anew",
        invariant="INV-SCAN-1",
        rule="a leader continues the commit times of earlier leaders",
        edits=(Edit("coordinator.Writer.run", "await self._read_commit_time()", ""),),
        hunters=(f"{CLOCKS}::test_I14_commit_times_never_decrease_when_the_next_leader_is_behind",),
        unseen=UNSEEN,
    ),
    Mutant(
        name="a time that gets revisions after it was asked for",
        invariant="INV-SCAN-1",
        rule="once a time was asked for, no transaction of this leader gets a commit time up to it",
        edits=(Edit("Writer.revision_until", "self._earliest_us = max(self._earliest_us, time_us + 1)", ""),),
        hunters=(f"{TIMES}::test_what_was_asked_for_by_a_time_gets_no_further_revision",),
        unseen=UNSEEN,
    ),
    Mutant(
        name="a time that does not wait for what is under way",
        invariant="INV-SCAN-1",
        rule="a time that is asked for waits for the transactions that may have got a commit time before it",
        edits=(Edit("Writer.revision_until", "await self.submit(lambda _: ())", "self._catalog.revision"),),
        hunters=(f"{TIMES}::test_what_was_asked_for_by_a_time_gets_no_further_revision",),
        unseen=UNSEEN,
    ),
    Mutant(
        name="nodes that get commit times",
        invariant="INV-REC-1",
        rule="commit times lie outside the watched range, which the lineage covers",
        edits=(Edit("COMMIT_TIME", "b'commit_time'", "b'c/commit_time'"),),
        hunters=(f"{TIMES}::test_no_watcher_of_the_watched_range_sees_them",),
    ),
)
