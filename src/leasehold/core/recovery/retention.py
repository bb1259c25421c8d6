"""Retention: how much of the meta storage's history a leader lets be forgotten (docs/recovery.md).

What may go, goes by age or by number: revisions older than `retention_ns`, and whatever is more than
`retention_revisions`. A node that takes a snapshot at S **holds** the revisions from S on, with a TTL that each page
and each delivered revision renews, so that compaction can't overtake it again and again (R3). The holds of the leader
before are not known: for RETENTION_HOLD_NS after its election a leader lets nothing be forgotten.

Ages are counted from samples (when which revision was the newest) that the leader takes since its election: a change
of leader prolongs what is kept, and nothing shortens it.
"""

from collections import deque

import msgspec

from leasehold.core.words.records import SettingsRecord
from leasehold.ids import NodeId, Revision
from leasehold.limits.metastorage import (
    COMPACTION_INTERVAL_NS,
    RETENTION_HOLD_NS,
    RETENTION_HOLDS_MAX,
    RETENTION_SAMPLES_MAX,
)


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """The revisions from `revision` on stay until `until_ns`. `through` is what its session has to deliver before it
    ends by itself, None before that session is open."""

    revision: Revision
    until_ns: int
    through: Revision | None = None


class Retention:
    """Of one leader, elected at `now_ns`."""

    def __init__(self, now_ns: int) -> None:
        self._nothing_until_ns = now_ns + RETENTION_HOLD_NS
        self._samples: deque[tuple[int, Revision]] = deque()
        self._holds: dict[NodeId, Hold] = {}

    # ------------------------------------------------------------ holds

    def held(self, node: NodeId) -> Hold | None:
        """What a node holds."""
        return self._holds.get(node)

    def hold(self, node: NodeId, revision: Revision, now_ns: int) -> None:
        """A node takes a snapshot at `revision`, from now on; it replaces what it held before."""
        self._expire(now_ns)
        assert node in self._holds or len(self._holds) < RETENTION_HOLDS_MAX, "there are no more nodes than that"
        self._holds[node] = Hold(revision=revision, until_ns=now_ns + RETENTION_HOLD_NS)

    def renew(self, node: NodeId, now_ns: int) -> None:
        """It has been sent a page."""
        held = self._holds.get(node)
        if held is not None:
            self._holds[node] = msgspec.structs.replace(held, until_ns=now_ns + RETENTION_HOLD_NS)

    def followed(self, node: NodeId, watch_from: Revision, latest: Revision, now_ns: int) -> None:
        """A session of the node watches from there, LM is `latest`: one behind the snapshot takes the hold over."""
        held = self._holds.get(node)
        if held is None or watch_from <= held.revision:
            return
        if latest < watch_from:
            del self._holds[node]
        else:
            self._holds[node] = Hold(
                revision=Revision(watch_from - 1), until_ns=now_ns + RETENTION_HOLD_NS, through=latest
            )

    def delivered(self, node: NodeId, revision: Revision, now_ns: int) -> None:
        """Its session has taken that revision from the store."""
        held = self._holds.get(node)
        if held is None or held.through is None:
            return
        if revision >= held.through:
            del self._holds[node]
        else:
            self._holds[node] = msgspec.structs.replace(
                held, revision=max(held.revision, revision), until_ns=now_ns + RETENTION_HOLD_NS
            )

    def _expire(self, now_ns: int) -> None:
        self._holds = {node: one for node, one in self._holds.items() if now_ns < one.until_ns}

    # ------------------------------------------------------------ what may go

    def sample(self, newest: Revision, settings: SettingsRecord, now_ns: int) -> None:
        """Notes that `newest` is the newest revision now; the more is kept, the less often that is noted."""
        every_ns = max(COMPACTION_INTERVAL_NS, settings.retention_ns // (RETENTION_SAMPLES_MAX // 2))
        if self._samples:
            last_ns, last = self._samples[-1]
            if newest <= last or now_ns - last_ns < every_ns:
                return
        if len(self._samples) == RETENTION_SAMPLES_MAX:  # more is to be kept than before: with wider steps
            self._samples = deque(one for at, one in enumerate(self._samples) if at % 2 == 0)
        self._samples.append((now_ns, newest))
        assert len(self._samples) <= RETENTION_SAMPLES_MAX, "a leader keeps a bounded number of samples"

    def allowed(self, newest: Revision, settings: SettingsRecord, now_ns: int) -> Revision:
        """The revision that may become the oldest one: everything from it on stays."""
        self._expire(now_ns)
        if now_ns < self._nothing_until_ns:
            return Revision(1)
        while len(self._samples) > 1 and self._samples[1][0] <= now_ns - settings.retention_ns:
            self._samples.popleft()
        oldest = Revision(1)
        if self._samples and self._samples[0][0] <= now_ns - settings.retention_ns:
            oldest = self._samples[0][1]
        oldest = max(oldest, Revision(newest - settings.retention_revisions))
        return min([oldest, *(one.revision for one in self._holds.values())])
