"""Words that the tests of the grantor share."""

from leasehold.core.lease.barrier import Proceed
from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.grants import (
    EndReportReceived,
    HeldLease,
    RefuseRenewal,
    Registered,
    RenewalReceived,
    ReportVerdict,
    SendGrant,
    SurrenderReceived,
)
from leasehold.core.lease.process_end import end_hash, end_proof
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.messages import Grant, Renewal, RenewalRefused, ReportProcessEnd, Surrender
from leasehold.core.words.records import BarrierReceipt, SettingsRecord, SettledNode

# Without drift the numbers are plain: a bound is the receive time + 3000 + 500.
SETTINGS = SettingsRecord(
    lease_duration_ns=3_000, lease_margin_ns=500, drift_ppm=0, catch_up_difference=100, min_in_sync=1
)
ELECTED, SEED_BOUND = 1_000, 4_500


def proof(session):
    return end_proof("t" * 32, session)


def member(incarnation, session_hash):
    """Its end proof follows from its session too."""
    return Registered(incarnation=incarnation, session_hash=session_hash, member=True, end_hash=_end_hash(session_hash))


def _end_hash(session_hash):
    return b"" if session_hash is None else end_hash(proof(session_hash.decode()))


def grantor(*, leads_until_ns=None, largest=0, settings=SETTINGS, registered=None):
    """Of term 4, floor 7; nodes 1 and 2 have incarnations 3 and 5, node 9 has never joined."""
    if registered is None:
        registered = {2: member(5, b"s5"), 1: member(3, b"s3"), 9: member(0, None)}
    return Grantor(
        term=4,
        floor=7,
        settings=settings,
        largest_outstanding_ns=largest,
        registered=registered,
        hash_session=str.encode,
        leads_until_ns=leads_until_ns,
        now_ns=ELECTED,
    )


def renewal(node=1, incarnation=3, session="s3", request=1, applied=7):
    return RenewalReceived(
        renewal=Renewal(
            node=node, incarnation=incarnation, session=session, request=request, applied=applied, lineage=GENESIS
        )
    )


def other(**fields):
    return renewal(**{"node": 2, "incarnation": 5, "session": "s5", **fields})


def surrender(node=1, incarnation=3, session="s3"):
    return SurrenderReceived(surrender=Surrender(node=node, incarnation=incarnation, session=session))


def ended(node=1, incarnation=3, session="s3"):
    report = ReportProcessEnd(cluster_id="c", node=node, incarnation=incarnation, proof=proof(session))
    return EndReportReceived(report=report)


def granted(sequence, *, node=1, request=1, duration_ns=3_000, floor=7):
    answer = Grant(request=request, term=4, sequence=sequence, duration_ns=duration_ns, floor=floor)
    return SendGrant(node=node, grant=answer)


def refused(code, text, *, node=1, request=1):
    return RefuseRenewal(refused=RenewalRefused(request=request, code=code, text=text))


def held(
    bound_ns=SEED_BOUND, *, applied=None, closed=None, incarnation=3, session_hash=b"s3", required=0, known_end=None
):
    return HeldLease(
        incarnation=incarnation,
        session_hash=session_hash,
        bound_ns=bound_ns,
        applied=applied,
        closed=closed,
        required=required,
        end_hash=_end_hash(session_hash) if known_end is None else known_end,
    )


def proceeded(number, revision, *settled, sequence=0):
    lines = tuple(SettledNode(node=node, how=how, after_ns=after_ns) for node, how, after_ns in settled)
    receipt = BarrierReceipt(revision=revision, term=4, sequence=sequence, settled=lines)
    return ReportVerdict(number=number, verdict=Proceed(receipt=receipt))


def both_settled(leader, at_ns, revision=7):
    """Both nodes report and are granted: sequences 1 and 2."""
    leader.step(renewal(applied=revision), at_ns)
    leader.step(other(applied=revision), at_ns)
