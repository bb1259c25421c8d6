"""What every request of a data node goes through: the cluster it is meant for, the revision it has seen, the guard.

The guard itself is `core.lease.holder.guard`. Each step of a request decides on the view of a `Pass` that `guarded`
gave for this step: `docs/protocols.md` has the table of all paths. Other reads of `Serving.view` only wait, read ahead
for the guard, or word an error.
"""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from leasehold.core.catalog.catalog import BucketKey, Catalog
from leasehold.core.data.runtime import Runtime
from leasehold.core.lease.holder import NO_LEASE, Pass, PublishedView, guard
from leasehold.core.membership.generations import generation_changed, generation_of
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words.records import BucketRecord, NodeRecord, PrincipalRecord, TableRecord, UseState
from leasehold.error_codes import ErrorCode
from leasehold.errors import Fenced, Forbidden, NotFound, Refused
from leasehold.ids import (
    BucketNumber,
    ClusterId,
    Generation,
    Incarnation,
    NodeId,
    NodeLogin,
    ObjectId,
    PrincipalId,
    Revision,
    SegmentId,
    Session,
)
from leasehold.limits.clients import TOLD_ADDRESS_CHARACTERS_MAX
from leasehold.limits.flight import FLIGHT_STRANGERS_WAITS_MAX, FLIGHT_WAITS_MAX
from leasehold.limits.segments import SCHEMA_WAIT_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS


class Serving(PublishedView[Catalog], Protocol):
    """What a node publishes, as its requests read it. `cluster_id` is empty, `node` and `incarnation` are 0 until the
    process has joined."""

    cluster_id: ClusterId
    node: NodeId
    incarnation: Incarnation
    had_lease: bool
    """Whether this process has had a lease: then `NO_LEASE` means that it was given back."""
    session: Session | None
    """Proves to peers which node this is; a secret."""
    seal_key: bytes
    """For what this process says of segments (`core.data.seals`); a secret that peers do not learn."""

    async def wait_for(self, revision: Revision, until_ns: int) -> None:
        """Returns once the view shows `revision`, at most at `until_ns`. It may return sooner: look again."""
        ...


class Slots:
    """At most `most` of `what` at once. A user who holds as many as are free gets no more, so nobody takes the last."""

    def __init__(self, runtime: Runtime, what: str, most: int) -> None:
        self._lock = runtime.condition()
        self._what = what
        self._most = most
        self._free = most
        self._held = Counter[PrincipalId | None]()

    @contextmanager
    def one(self, user: PrincipalRecord | None = None) -> Generator[None]:
        """Holds a slot. Raises `Refused` with code BUSY if none is free, for this user."""
        holder = None if user is None else user.id
        with self._lock:
            held = self._held[holder] if user is not None else 0
            if self._free <= held:
                of_one = f" of {user.name}, and leaves as many to others" if user is not None and held else ""
                raise Refused(
                    f"this node already has {held or self._most} {self._what}{of_one}, which is its limit",
                    code=ErrorCode.BUSY,
                    hint="another replica may serve; or try again with fewer streams at once",
                )
            self._free -= 1
            self._held[holder] += 1
        try:
            yield
        finally:
            with self._lock:
                self._free += 1
                self._held[holder] -= 1


class Requests:
    """What all requests to one process share: its view and lease, its clock, and the slots of those that wait."""

    def __init__(
        self, serving: Serving, runtime: Runtime, *, wait_ns: int = SCHEMA_WAIT_NS, waits_max: int = FLIGHT_WAITS_MAX
    ) -> None:
        self.serving = serving
        self.runtime = runtime
        self._wait_ns = wait_ns
        # Whoever may do nothing here can wait too.
        self._waiting = Slots(runtime, "calls waiting for a revision", waits_max)
        self._strangers = Slots(
            runtime, "calls of an unknown login waiting for a revision", min(waits_max, FLIGHT_STRANGERS_WAITS_MAX)
        )

    def guarded(self, bucket: BucketKey) -> Pass[Catalog]:
        """Passes the guard, or raises `Fenced`, which names the other replicas of `bucket`."""
        passed = guard(self.serving, self.runtime.now_ns)
        if passed is None:
            raise fenced(self.serving, self.runtime.now_ns(), bucket)
        return passed

    async def until_shown(
        self,
        revision: Revision,
        bucket: BucketKey,
        generation: Generation | None = None,
        *,
        login: NodeLogin | None = None,
        by_itself: bool = False,
    ) -> None:
        """Waits at most `wait_ns` until the view shows `revision`. That permits nothing: the caller passes the guard
        next. A caller whose `login` the view does not know has few places to wait. `by_itself` says that no login is
        needed: the node asks for itself, or has checked the caller before.

        Raises `Refused` with code BEHIND, with BUSY if too many others wait, and with GENERATION_CHANGED if the view is
        of a newer `generation`. Raises `Fenced` as soon as the lease has ended.
        """
        if self.serving.view.revision >= revision:
            return
        with (self._waiting if by_itself or self._knows(login) else self._strangers).one():
            give_up_ns = self.runtime.now_ns() + self._wait_ns
            while True:
                passed = self.guarded(bucket)
                if passed.view.revision >= revision:
                    return
                if generation is not None and generation_of(passed.view) > generation:
                    raise generation_changed(generation, generation_of(passed.view))
                if passed.released_ns >= give_up_ns:
                    raise _behind(self.serving, revision, self._wait_ns)
                await self.serving.wait_for(revision, min(give_up_ns, passed.lease.deadline_ns))

    def _knows(self, login: NodeLogin | None) -> bool:
        """Whether the view has a login, or needs none. It may be a new one that the view does not show yet."""
        view = self.serving.view
        return not view.users or (login is not None and hash_secret(login) in view.logins)


def fenced(serving: Serving, instant_ns: int, bucket: BucketKey) -> Fenced:
    """The error of a node whose guard did not pass at `instant_ns`."""
    view, lease = serving.view, serving.lease
    who = _named(view, serving.node) if serving.node else "this node"
    if lease is not NO_LEASE:
        since_ms = max(0, instant_ns - lease.deadline_ns) // MILLISECOND_NS
        text = f"{who} has been fenced for {since_ms} ms: it can't prove that its schema is current"
    elif serving.had_lease:
        text = f"{who} has surrendered its lease: it stops"
    else:
        text = f"{who} has had no lease since it started: it can't yet prove that its schema is current"
    return Fenced(
        text,
        hint="ask another replica; this node serves again with its next grant, and SHOW NODES shows its state"
        + _elsewhere(view, serving.node, bucket),
    )


def _elsewhere(view: Catalog, node: NodeId, bucket: BucketKey) -> str:
    """Where else the bucket is, by a view that may be old: the nodes there guard for themselves."""
    record = view.buckets.get(bucket)
    replicas = () if record is None else record.replicas
    known = [view.nodes[one] for one in replicas if one != node and one in view.nodes]
    others = ", ".join(_placed(one) for one in known if not one.removed)
    return f" As last known here the bucket is also on {others}." if others else ""


def _placed(node: NodeRecord) -> str:
    return f"node {node.id} ({node.name}) at {node.address[:TOLD_ADDRESS_CHARACTERS_MAX]}"


def _named(view: Catalog, node: NodeId) -> str:
    record = view.nodes.get(node)
    return f"node {node}" if record is None else f"node {node} ({record.name})"


def check_cluster(serving: Serving, cluster_id: ClusterId) -> None:
    """Raises `Refused` with code OTHER_CLUSTER for a request that is meant for another cluster.

    No guard: a process belongs to one cluster for its whole life.
    """
    if serving.cluster_id != cluster_id:
        here = f"belongs to cluster {serving.cluster_id}" if serving.cluster_id else "has joined no cluster yet"
        raise Refused(
            f"the request is for cluster {cluster_id[:64]}, this node {here}",
            code=ErrorCode.OTHER_CLUSTER if serving.cluster_id else ErrorCode.NOT_JOINED,
            hint="look the table up again: another cluster may use this address now",
        )


def check_node(node: NodeId, session: Session | None, view: Catalog) -> None:
    """Raises `Forbidden` unless a node asks: no right covers whole segments.

    Without users too: a node that is cut off does not hear of the first user.
    """
    record = view.nodes.get(node)
    known = None if record is None or record.removed else record.session_hash
    if known is None or session is None or hash_secret(session) != known:
        text = "only nodes of this cluster may transfer whole segments"
        raise Forbidden(text, hint="read the table with SELECT, or append to it with INSERT")


def _behind(serving: Serving, revision: Revision, waited_ns: int) -> Refused:
    return Refused(
        f"node {serving.node} shows revision {serving.view.revision}, the request has seen {revision}",
        code=ErrorCode.BEHIND,
        hint=f"another replica may serve; this one did not catch up within {waited_ns / SECOND_NS:g} s",
    )


def check_generation(generation: Generation, view: Catalog) -> None:
    """Raises `Refused` for a request of another generation than that of a view that has passed the guard.

    The code is GENERATION_CHANGED if the view is of a newer generation, and BEHIND if it is of an older one.
    """
    here = generation_of(view)
    if here == generation:
        return
    if here > generation:
        raise generation_changed(generation, here)
    raise Refused(
        f"this node's view is of generation {here}, the request of generation {generation}",
        code=ErrorCode.BEHIND,
        hint="another replica may serve; this node serves when it has recovered to the new generation",
    )


def table_in_use(view: Catalog, table: ObjectId) -> TableRecord:
    """The table; raises `NotFound` with code TABLE_DROPPED if it may not be used on this view."""
    record = view.tables.get(table)
    if record is None or record.state is not UseState.IN_USE:
        name = f"table {table}" if record is None else f"table {view.table_name(record)}"
        raise NotFound(f"{name} was dropped", code=ErrorCode.TABLE_DROPPED, hint="SHOW TABLES lists what exists")
    return record


def assigned_bucket(view: Catalog, table: ObjectId, bucket: BucketNumber, node: NodeId) -> BucketRecord:
    """The bucket; raises `Refused` with code NOT_ASSIGNED if this node is not one of its replicas."""
    record = view.buckets.get((table, bucket))
    if record is None or node not in record.replicas:
        raise Refused(
            f"bucket {bucket} of table {table} is not assigned to node {node}",
            code=ErrorCode.NOT_ASSIGNED,
            hint="look the table up again: its buckets may have moved",
        )
    return record


def missing(serving: Serving, segment: SegmentId) -> Refused:
    return Refused(
        f"node {serving.node} does not hold segment {segment}",
        code=ErrorCode.SEGMENT_MISSING,
        hint="another replica may serve; this node fetches what it lacks",
    )
