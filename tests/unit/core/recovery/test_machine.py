"""A process on its way into the logical topology: every row of its table."""

import pytest

from leasehold.core.recovery.events import (
    Accepted,
    Behind,
    DiskCompared,
    EndAhead,
    Excluded,
    Leapt,
    Overtaken,
    PageTaken,
    RenewalSent,
    RenewNow,
    RevisionShown,
    SegmentsCounted,
    SendFinished,
    SnapshotBegun,
    Stage,
    Stopping,
    Stored,
    StreamBroken,
    TakeSnapshot,
)
from leasehold.core.words.time_passed import TimePassed
from leasehold.limits.recovery import RECOVERY_ASK_AGAIN_NS, RECOVERY_LEFT_MAX_NS
from leasehold.limits.units import SECOND_NS
from tests.unit.core.recovery.machine_words import Ground, opened, shown_and_stored

# ---------------------------------------------------------------- the rows of the table


def test_with_nothing_new_it_says_so_at_once():
    ground = Ground()
    assert ground.step(opened(10)) == (SendFinished(applied=10),)
    assert ground.stage is Stage.ASKING
    assert ground.progress.case == "a"


def test_replaying_it_says_so_as_soon_as_the_vault_is_near_enough():
    ground = Ground()
    assert ground.step(opened(15)) == ()
    assert ground.step(*shown_and_stored(11, 12), RevisionShown(revision=13)) == ()
    assert ground.step(Stored(revision=13)) == (SendFinished(applied=13),)
    assert (ground.progress.case, ground.progress.applied, ground.progress.target) == ("b", 13, 15)


def test_what_is_only_shown_is_not_said_to_be_applied():
    ground = Ground()
    assert ground.step(opened(12, difference=0), RevisionShown(revision=11), RevisionShown(revision=12)) == ()
    assert ground.step(Stored(revision=11)) == ()
    assert ground.step(Stored(revision=12)) == (SendFinished(applied=12),)


def test_the_target_moves_with_what_is_heard():
    ground = Ground()
    ground.step(opened(12, difference=1))
    assert (
        ground.step(
            RevisionShown(revision=11), RevisionShown(revision=12), RevisionShown(revision=13), Stored(revision=11)
        )
        == ()
    )
    assert ground.step(Stored(revision=12)) == (SendFinished(applied=12),)


def test_behind_it_catches_up_and_says_so_again():
    ground = Ground()
    ground.step(opened(10))
    assert ground.step(Behind(latest=20, catch_up_difference=5)) == ()
    assert ground.stage is Stage.REPLAYING
    assert ground.step(*shown_and_stored(14)) == ()
    assert ground.step(*shown_and_stored(15)) == (SendFinished(applied=15),)


def test_accepted_it_renews_at_once_when_it_shows_what_is_required():
    ground = Ground()
    ground.step(opened(10), Accepted(required=12), RevisionShown(revision=11))
    assert ground.stage is Stage.ADMITTED
    assert ground.step(RevisionShown(revision=12)) == (RenewNow(),)
    assert ground.stage is Stage.MEMBER
    assert ground.step(RevisionShown(revision=13)) == ()


def test_accepted_it_renews_at_once_if_it_shows_what_is_required():
    ground = Ground()
    ground.step(opened(10), RevisionShown(revision=11))
    assert ground.step(Accepted(required=11)) == (RenewNow(),)


def test_recovered_means_that_the_vault_holds_what_was_required():
    ground = Ground()
    ground.step(opened(10), Accepted(required=11), RevisionShown(revision=11))
    assert ground.stage is Stage.MEMBER
    assert not ground.recovery.recovered
    ground.step(Stored(revision=11))
    assert ground.recovery.recovered
    ground.step(StreamBroken(), opened(30))
    assert ground.recovery.recovered, "what it knows stays true"


def test_a_member_that_comes_back_says_nothing():
    ground = Ground()
    assert ground.step(opened(12, member=True)) == ()
    assert ground.stage is Stage.ADMITTED
    assert ground.step(*shown_and_stored(11)) == ()
    assert ground.step(RevisionShown(revision=12)) == (RenewNow(),)
    assert ground.step(StreamBroken(), opened(12, member=True)) == ()
    assert ground.stage is Stage.MEMBER


def test_a_member_that_was_left_out_meanwhile_recovers_again():
    ground = Ground()
    ground.step(opened(10), Accepted(required=10), StreamBroken())
    assert ground.step(opened(10)) == (SendFinished(applied=10),)


def test_a_refused_renewal_of_a_member_leads_back():
    ground = Ground()
    ground.step(opened(10), Accepted(required=10), RenewalSent(request=7))
    assert ground.step(Excluded(request=7)) == (SendFinished(applied=10),)
    assert ground.progress.why == "it had left the logical topology"


@pytest.mark.parametrize("request_number", [5, 6], ids=["long before", "just before"])
def test_a_refusal_of_a_renewal_from_before_it_was_a_member_says_nothing(request_number):
    ground = Ground()
    ground.step(opened(10), RenewalSent(request=5), RenewalSent(request=6), Accepted(required=10))
    assert ground.step(RenewalSent(request=7), Excluded(request=request_number)) == ()
    assert ground.stage is Stage.MEMBER


@pytest.mark.parametrize("stage", [Stage.CONNECTING, Stage.REPLAYING, Stage.ASKING, Stage.ADMITTED, Stage.LEAPING])
def test_whoever_is_no_member_knows_why_it_is_refused(stage):
    ground = Ground()
    ground.step(
        *{
            Stage.CONNECTING: [],
            Stage.REPLAYING: [opened(30)],
            Stage.ASKING: [opened(10)],
            Stage.ADMITTED: [opened(10), Accepted(required=11)],
            Stage.LEAPING: [opened(30, minimum=20)],
        }[stage]
    )
    assert ground.step(RenewalSent(request=1), Excluded(request=1)) == ()
    assert ground.stage is stage


def test_once_per_stream_until_it_is_answered():
    ground = Ground()
    assert ground.step(opened(10)) == (SendFinished(applied=10),)
    assert ground.step(*shown_and_stored(11, 12), RenewalSent(request=1), Excluded(request=1)) == ()
    assert ground.step(StreamBroken(), opened(12)) == (SendFinished(applied=12),)


def test_what_nobody_answers_is_said_again_after_a_while():
    ground = Ground()
    ground.step(opened(10))
    ground.now_ns += RECOVERY_ASK_AGAIN_NS - 1
    assert ground.step(TimePassed()) == ()
    ground.step(*shown_and_stored(11))
    ground.now_ns += 1
    assert ground.step(TimePassed()) == (SendFinished(applied=11),)
    assert ground.step(TimePassed()) == (), "not before as much time has passed again"
    ground.step(Accepted(required=12))
    ground.now_ns += RECOVERY_ASK_AGAIN_NS
    assert ground.step(TimePassed(), *shown_and_stored(12)) == (RenewNow(),)
    assert ground.step(Accepted(required=12), TimePassed()) == (), "the answer to what was said again"
    assert ground.stage is Stage.MEMBER


def test_a_directory_ahead_ends():
    assert Ground().step(opened(9)) == (EndAhead(applied=10, latest=9),)


# ---------------------------------------------------------------- leaps


def test_a_leap_is_followed_by_a_stream_from_there():
    ground = Ground()
    assert ground.step(opened(40, minimum=30)) == (TakeSnapshot(),)
    assert ground.stage is Stage.LEAPING
    ground.step(SnapshotBegun(revision=41, keys=9), PageTaken(keys=5), PageTaken(keys=4), Leapt(revision=41))
    assert ground.stage is Stage.CONNECTING
    assert ground.step(StreamBroken(), opened(42)) == (SendFinished(applied=41),)
    progress = ground.progress
    assert (progress.case, progress.keys, progress.keys_total) == ("c", 9, 9)
    assert progress.why == "revision 11 is compacted, the oldest kept is 30"


def test_whoever_has_leapt_replays_the_rest_until_it_is_in():
    """Few keys that change fast: however often it is weighed, there are more revisions than keys."""
    ground = Ground()
    assert ground.step(opened(40, live_keys=5)) == (TakeSnapshot(),)
    ground.step(Leapt(revision=40), StreamBroken())
    assert ground.step(opened(60, live_keys=5)) == ()
    assert ground.step(StreamBroken(), opened(80, live_keys=5)) == ()
    assert ground.stage is Stage.REPLAYING
    assert ground.step(StreamBroken(), opened(90, live_keys=5, minimum=50)) == (TakeSnapshot(),), "not kept any more"
    ground.step(Leapt(revision=90), StreamBroken(), opened(90), Accepted(required=90))
    assert ground.stage is Stage.MEMBER
    assert ground.step(StreamBroken(), opened(120, live_keys=5)) == (TakeSnapshot(),), "it is weighed anew"


def test_a_history_that_is_not_known_is_so_until_the_leap():
    ground = Ground(history_known=False)
    assert ground.step(opened(10)) == (TakeSnapshot(),)
    assert ground.step(StreamBroken(), opened(10)) == (TakeSnapshot(),)
    ground.step(Leapt(revision=10))
    assert ground.step(StreamBroken(), opened(10)) == (SendFinished(applied=10),)


@pytest.mark.parametrize("member", [False, True])
def test_overtaken_it_leaps(member):
    ground = Ground()
    ground.step(opened(30, member=member))
    assert ground.step(Overtaken(minimum=25)) == (TakeSnapshot(),)
    assert ground.step(Overtaken(minimum=26)) == (), "one at a time"
    assert ground.progress.case == "c"


def test_a_snapshot_that_ends_midway_is_begun_anew():
    ground = Ground()
    ground.step(opened(40, minimum=30), SnapshotBegun(revision=40, keys=9), PageTaken(keys=5))
    assert ground.step(StreamBroken(), opened(50, minimum=45)) == (TakeSnapshot(),)
    assert ground.recovery.keys == 0


def test_the_next_recovery_tells_its_own_case():
    ground = Ground()
    ground.step(opened(40, minimum=30), Leapt(revision=40), StreamBroken(), opened(40), Accepted(required=40))
    ground.step(StreamBroken(), opened(44, difference=9))
    assert ground.progress.case == "b"


# ---------------------------------------------------------------- comparing the disk (I7)


def test_the_disk_is_compared_before_it_says_that_it_has_finished():
    ground = Ground(compares_disk=True)
    assert ground.step(opened(10)) == ()
    due = ground.recovery.comparison_due
    assert due.revision == 10
    assert ground.step(DiskCompared(number=due.number, kept=3, missing=1)) == (SendFinished(applied=10),)
    assert ground.recovery.comparison_due is None
    assert (ground.progress.segments_kept, ground.progress.segments_missing) == (3, 1)


def test_what_was_compared_for_a_stream_that_broke_does_not_count():
    ground = Ground(compares_disk=True)
    ground.step(opened(10))
    old = ground.recovery.comparison_due
    ground.step(StreamBroken())
    assert ground.recovery.comparison_due is None, "nobody to tell"
    ground.step(opened(10))
    assert ground.step(DiskCompared(number=old.number, kept=0, missing=0)) == ()
    due = ground.recovery.comparison_due
    assert ground.step(DiskCompared(number=due.number, kept=0, missing=0)) == (SendFinished(applied=10),)


def test_a_catalog_from_before_the_stream_does_not_count():
    ground = Ground(compares_disk=True)
    ground.step(opened(12, difference=100))
    due = ground.recovery.comparison_due
    assert ground.step(DiskCompared(number=due.number, kept=0, missing=0)) == ()
    ground.step(*shown_and_stored(11, 12))
    assert ground.step(DiskCompared(number=due.number, kept=0, missing=0)) == (SendFinished(applied=12),)


def test_who_reported_on_this_stream_need_not_report_again():
    ground = Ground(compares_disk=True)
    ground.step(opened(10))
    ground.step(DiskCompared(number=ground.recovery.comparison_due.number, kept=0, missing=0))
    ground.step(Accepted(required=10), RenewalSent(request=1))
    assert ground.step(Excluded(request=1)) == (SendFinished(applied=10),)


def test_a_member_of_an_earlier_stream_reports_once_it_has_left():
    ground = Ground(compares_disk=True)
    ground.step(opened(10, member=True), RenewalSent(request=1))
    assert ground.recovery.comparison_due is None
    assert ground.step(Excluded(request=1)) == ()
    assert ground.recovery.comparison_due is not None


# ---------------------------------------------------------------- the end


def test_who_surrenders_wants_no_membership():
    ground = Ground()
    ground.step(opened(30), Stopping())
    assert ground.step(*shown_and_stored(29, 30), StreamBroken(), opened(30), Overtaken(minimum=5)) == ()
    assert ground.stage is Stage.STOPPED
    assert not ground.recovery.busy


def test_a_view_never_goes_back():
    ground = Ground()
    ground.step(opened(30))
    with pytest.raises(AssertionError):
        ground.step(RevisionShown(revision=10))


# ---------------------------------------------------------------- for people


def test_how_long_it_takes_is_told_from_how_long_it_took():
    ground = Ground(applied=0)
    ground.step(opened(100))
    assert ground.progress.left_ns is None, "nothing has been done yet"
    ground.now_ns += 2 * SECOND_NS
    ground.step(*shown_and_stored(25))
    assert ground.progress.left_ns == 6 * SECOND_NS


def test_a_snapshot_is_told_of_by_its_keys():
    ground = Ground(applied=0)
    ground.step(opened(100, minimum=50), SnapshotBegun(revision=100, keys=40))
    ground.now_ns += SECOND_NS
    ground.step(PageTaken(keys=10))
    assert (ground.progress.keys, ground.progress.keys_total, ground.progress.left_ns) == (10, 40, 3 * SECOND_NS)
    ground.step(PageTaken(keys=40))
    assert ground.progress.keys_total == 50, "the total was about right"


def test_segments_are_told_of_after_it_is_in():
    ground = Ground(compares_disk=True)
    ground.step(opened(10))
    ground.step(DiskCompared(number=ground.recovery.comparison_due.number, kept=5, missing=4), Accepted(required=10))
    assert ground.recovery.busy
    ground.now_ns += SECOND_NS
    ground.step(SegmentsCounted(fetched=1, evicted=2, missing=None))
    progress = ground.progress
    assert (progress.segments_fetched, progress.segments_missing, progress.segments_evicted) == (1, 3, 2)
    assert progress.left_ns == 3 * SECOND_NS
    ground.step(SegmentsCounted(fetched=1, evicted=0, missing=0))
    assert not ground.recovery.busy
    assert ground.progress.left_ns == 0


def test_a_guess_of_more_than_a_week_is_none():
    ground = Ground(applied=0)
    ground.step(opened(1_000_000, live_keys=2_000_000))
    ground.now_ns += RECOVERY_LEFT_MAX_NS // 1_000
    ground.step(*shown_and_stored(1))
    assert ground.progress.left_ns is None
