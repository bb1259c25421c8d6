"""A process on its way into the logical topology, whatever comes in whatever order."""

from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.recovery.events import (
    Accepted,
    Behind,
    DiskCompared,
    Excluded,
    Leapt,
    Opened,
    Overtaken,
    RenewalSent,
    RevisionShown,
    SendFinished,
    Stage,
    Stored,
    StreamBroken,
)
from leasehold.core.words.time_passed import TimePassed
from tests.unit.core.recovery.machine_words import Ground, opened

revisions = st.integers(1, 40)
events = st.one_of(
    st.builds(opened, revisions, minimum=revisions, live_keys=revisions, member=st.booleans()),
    st.builds(Overtaken, minimum=revisions),
    st.builds(Leapt, revision=revisions),
    st.builds(RevisionShown, revision=revisions),
    st.builds(Stored, revision=revisions),
    st.builds(DiskCompared, number=st.integers(0, 5), kept=st.just(0), missing=st.just(0)),
    st.builds(Accepted, required=revisions),
    st.builds(Behind, latest=revisions, catch_up_difference=st.integers(0, 5)),
    st.builds(RenewalSent, request=revisions),
    st.builds(Excluded, request=revisions),
    st.builds(TimePassed),
    st.builds(StreamBroken),
)


def may_come(event, stage, shown):
    """A stream is opened once; nothing is shown during a leap, or goes back; what is stored was shown."""
    match event:
        case Opened():
            return stage is Stage.CONNECTING
        case RevisionShown(revision=revision):
            return revision > shown and stage is not Stage.LEAPING
        case Leapt(revision=revision):
            return revision >= shown and stage is Stage.LEAPING
        case Stored(revision=revision):
            return revision <= shown
        case _:
            return True


class Model:
    """What is true of a recovery whatever it thinks."""

    def __init__(self, ground, *, compares_disk):
        self.ground, self.compares_disk = ground, compares_disk
        self.shown, self.durable, self.said, self.compared, self.required = 0, 0, 0, True, None

    def step(self, event):
        due, asked = self.ground.recovery.comparison_due, self.ground.stage is Stage.ASKING
        effects = self.ground.step(event)
        match event:
            case RevisionShown(revision=revision):
                self.shown = revision
            case Stored(revision=revision):
                self.durable = max(self.durable, revision)
            case Leapt(revision=revision):
                self.shown = self.durable = revision
            case Opened(latest=latest, member=member):
                self.said, self.compared = 0, not self.compares_disk
                self.required = latest if member else self.required
            case DiskCompared(number=number) if due and number == due.number and self.durable >= due.revision:
                self.compared = True
            case Accepted() | Behind() if asked:
                self.said = 0
                self.required = event.required if isinstance(event, Accepted) else self.required
            case _:
                pass
        return [one for one in effects if isinstance(one, SendFinished)]


@given(st.lists(events, max_size=40), st.booleans())
def test_whatever_comes_nothing_is_said_twice_and_nobody_is_in_too_early(story, compares_disk):
    ground = Ground(applied=0, compares_disk=compares_disk)
    model = Model(ground, compares_disk=compares_disk)
    for event in story:
        if not may_come(event, ground.stage, model.shown):
            continue
        for finished in model.step(event):
            model.said += 1
            assert model.said == 1, "once, until it is answered"
            assert model.compared
            assert finished.applied == model.durable
        if ground.stage is Stage.MEMBER:
            assert model.required is not None
            assert model.shown >= model.required, "INV-REC-3"
