"""Bounds of leases and of leaders (docs/design.md, "Lease")."""

from typing import Final

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

DRIFT_PPM: Final = 10_000
"""A clock gains or loses at most this many parts in a million (1 %)."""
LEASE_DURATION_NS: Final = 3 * SECOND_NS
LEASE_MARGIN_NS: Final = 500 * MILLISECOND_NS
RENEWAL_INTERVAL_NS: Final = 500 * MILLISECOND_NS
BOUND_SLACK_NS: Final = 400 * MILLISECOND_NS
"""What the published bound allows for transactions, round trips and scheduling."""
LEASE_DURATION_MIN_NS: Final = 1_600 * MILLISECOND_NS
LEASE_DURATION_MAX_NS: Final = 600 * SECOND_NS
LEASE_MARGIN_MIN_NS: Final = 100 * MILLISECOND_NS
LEASE_MARGIN_MAX_NS: Final = 10 * SECOND_NS
RENEWALS_OUTSTANDING_MAX: Final = 64
"""Renewals that a node remembers; a grant for an older one is ignored."""
LEADER_POLL_NS: Final = 500 * MILLISECOND_NS
"""How often a standby coordinator looks at the leader record."""
LEADER_COURTESY_NS: Final = 1 * SECOND_NS
"""How long candidates let the one go first that the last leader named as its successor."""
LEADER_ASIDE_NS: Final = 2 * SECOND_NS
"""How long a leader that steps aside does not campaign: the others look at the record more often."""
LEADER_RETRY_NS: Final = 200 * MILLISECOND_NS
"""How long a coordinator that lost its leadership, or its meta storage, waits before it stands again."""
HAND_OVER_NS: Final = 1 * SECOND_NS
"""How long a coordinator that stops in order tries to hand its leadership over."""
LINEAGES_KEPT: Final = 10_000
"""Recent revisions whose hash a leader compares with what renewals report."""
SURRENDER_WAIT_NS: Final = 1 * SECOND_NS
"""How long a node that stops in order waits for the answer to its surrender."""
SILENT_SHOWN_NS: Final = 1_500 * MILLISECOND_NS
"""A node with an open session counts as silent after this time without a message: three renewals."""
