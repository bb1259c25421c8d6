"""What two drifting clocks can still promise each other (docs/design.md, "Time").

Every clock gains or loses at most `drift_ppm` parts in a million. A span that a slow clock measures as `n` lasts at
most n / (1 - d) in real time, in which a fast clock counts at most n x (1 + d) / (1 - d). All is rounded up, the safe
side.
"""

from leasehold.core.words.records import SettingsRecord

MILLION = 1_000_000


def outlast_ns(span_ns: int, drift_ppm: int) -> int:
    """The shortest local span that surely lasts as long as `span_ns` measured on any other clock."""
    assert span_ns >= 0
    assert 0 <= drift_ppm < MILLION
    return -(-span_ns * (MILLION + drift_ppm) // (MILLION - drift_ppm))


def lasts_ns(span_ns: int, drift_ppm: int) -> int:
    """How long a local span lasts at most in real time: on the slowest clock."""
    return -(-span_ns * MILLION // (MILLION - drift_ppm))


def grant_bound_ns(settings: SettingsRecord, duration_ns: int) -> int:
    """How long after it received a request a leader must count the grant of `duration_ns` as outstanding."""
    return outlast_ns(duration_ns, settings.drift_ppm) + settings.lease_margin_ns
