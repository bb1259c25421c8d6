"""The recovery machine in a test: what it is told, and what it says."""

from leasehold.core.recovery.events import Opened, RevisionShown, Stored
from leasehold.core.recovery.machine import Recovery


class Ground:
    """A recovery and the time."""

    def __init__(self, *, applied=10, history_known=True, compares_disk=False):
        self.now_ns = 1_000
        self.recovery = Recovery(
            applied=applied, history_known=history_known, compares_disk=compares_disk, now_ns=self.now_ns
        )

    def step(self, *events):
        effects = ()
        for event in events:
            effects += self.recovery.step(event, self.now_ns)
        return effects

    @property
    def stage(self):
        return self.recovery.stage

    @property
    def progress(self):
        return self.recovery.progress(self.now_ns)


def opened(latest, *, minimum=1, live_keys=1_000, difference=2, member=False):
    return Opened(latest=latest, minimum=minimum, live_keys=live_keys, catch_up_difference=difference, member=member)


def shown_and_stored(*revisions):
    return [kind(revision=revision) for revision in revisions for kind in (RevisionShown, Stored)]
