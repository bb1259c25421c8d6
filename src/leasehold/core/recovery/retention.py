"""Retention: how much of the meta storage's history a leader lets be forgotten (docs/recovery.md).

Revisions older than `retention_ns` may go, and those beyond the newest `retention_revisions` or `retention_bytes`. A
node that takes a snapshot at S **holds** the revisions from S on, so that compaction can't overtake it again and again
(R3). Each page and each delivered revision renews the hold. A new leader does not know the older holds: for
RETENTION_HOLD_NS after its election nothing may go.

Ages and bytes are counted from samples that the leader takes since its election: when which revision was the newest,
and how much had been written by then. A change of leader only prolongs what is kept for its age. Of the history that
the leader found it knows only the bytes as a whole, and counts as if all revisions of it had the same size.
"""

from collections import deque
from typing import NamedTuple

import msgspec

from leasehold.core.words.records import SettingsRecord
from leasehold.ids import NodeId, Revision
from leasehold.limits.metastorage import (
    COMPACTION_INTERVAL_NS,
    RETENTION_FOUND_STEPS,
    RETENTION_HOLD_NS,
    RETENTION_HOLDS_MAX,
    RETENTION_SAMPLES_MAX,
)


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """The revisions from `revision` on stay until `until_ns`, or until the node's session, once it is open, has
    delivered `through`."""

    revision: Revision
    until_ns: int
    through: Revision | None = None


class _Sample(NamedTuple):
    at_ns: int
    newest: Revision
    written_bytes: int
    """Since the election, up to that revision."""


class Retention:
    """Of one leader, elected at `now_ns`."""

    def __init__(self, now_ns: int) -> None:
        self._nothing_until_ns = now_ns + RETENTION_HOLD_NS
        self._samples: deque[_Sample] = deque()
        self._written_bytes = 0
        self._beyond = Revision(1)
        """More than `retention_bytes` lie above any revision below this one."""
        self._holds: dict[NodeId, Hold] = {}

    def hold(self, node: NodeId, revision: Revision, now_ns: int) -> None:
        """A node takes a snapshot at `revision`, from now on; it replaces what it held before."""
        self._expire(now_ns)
        assert node in self._holds or len(self._holds) < RETENTION_HOLDS_MAX, "there are no more nodes than that"
        self._holds[node] = Hold(revision=revision, until_ns=now_ns + RETENTION_HOLD_NS)

    def renew(self, node: NodeId, now_ns: int) -> None:
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

    def found(self, minimum: Revision, history_bytes: int) -> None:
        """Notes MM, and the bytes of the whole history above it."""
        first = self._samples[0]
        older_bytes = max(0, history_bytes - self._written_bytes)
        for left in range(1, RETENTION_FOUND_STEPS + 1):
            newest = first.newest - (first.newest - minimum) * left // RETENTION_FOUND_STEPS
            written_bytes = first.written_bytes - older_bytes * left // RETENTION_FOUND_STEPS
            self._samples.appendleft(_Sample(first.at_ns, Revision(newest), written_bytes))

    def wrote(self, size_bytes: int) -> None:
        """Counts the changes of a revision."""
        self._written_bytes += size_bytes

    def sample(self, newest: Revision, settings: SettingsRecord, now_ns: int) -> None:
        """Notes that `newest` is the newest revision now; the more is kept, the less often."""
        every_ns = max(COMPACTION_INTERVAL_NS, settings.retention_ns // (RETENTION_SAMPLES_MAX // 2))
        every_bytes = settings.retention_bytes // (RETENTION_SAMPLES_MAX // 2)
        if self._samples:
            last = self._samples[-1]
            is_soon = now_ns - last.at_ns < every_ns and self._written_bytes - last.written_bytes < every_bytes
            if newest <= last.newest or is_soon:
                return
        if len(self._samples) >= RETENTION_SAMPLES_MAX:  # more is to be kept than before: with wider steps
            self._samples = deque(one for at, one in enumerate(self._samples) if at % 2 == 0)
        self._samples.append(_Sample(now_ns, newest, self._written_bytes))
        assert len(self._samples) <= RETENTION_SAMPLES_MAX, "a leader keeps a bounded number of samples"

    def allowed(self, newest: Revision, settings: SettingsRecord, now_ns: int) -> Revision:
        """The revision that may become the oldest one: everything from it on stays."""
        self._expire(now_ns)
        if now_ns < self._nothing_until_ns:
            return Revision(1)
        while len(self._samples) > 1 and self._samples[1].at_ns <= now_ns - settings.retention_ns:
            self._samples.popleft()
        while (
            len(self._samples) > 1 and self._written_bytes - self._samples[0].written_bytes > settings.retention_bytes
        ):
            self._samples.popleft()
            self._beyond = self._samples[0].newest
        oldest = self._beyond
        if self._samples and self._samples[0].at_ns <= now_ns - settings.retention_ns:
            oldest = self._samples[0].newest
        oldest = max(oldest, Revision(newest - settings.retention_revisions))
        return min([oldest, *(one.revision for one in self._holds.values())])
