"""A scrub on demand: all nodes read their segment files whole, at the same time (`node/serving/scrubs.py`)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import msgspec
import pyarrow as pa

from leasehold.client.coordinators import Coordinators
from leasehold.core.membership.identity import node_login
from leasehold.core.words.codec import decode_message
from leasehold.core.words.messages import NodeStatus, ScrubbedTable, ScrubEnd, ScrubTicket
from leasehold.errors import BadMessage, LeaseholdError, Unreachable
from leasehold.ids import NodeId, ObjectId
from leasehold.limits.scrub import SCRUB_CALL_NS, SCRUB_NODES_AT_ONCE
from leasehold.wire.flight import calling, ticket, within, writer_to
from leasehold.wire.tls import TlsSource


class ScrubbedNode(msgspec.Struct, frozen=True, kw_only=True):
    """What one node has found, by table; `error` says why the node was not scrubbed to its end."""

    node: NodeId
    name: str
    tables: tuple[ScrubbedTable, ...] = ()
    error: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether each file that should be here is here, as it should be."""
        return not any(one.unhealed or one.missing or one.unread for one in self.tables)


def scrub(
    cluster: Coordinators, name: str | None, on_progress: Callable[[int, int, int], None]
) -> tuple[ScrubbedNode, ...]:
    """Scrubs the files of a table, or of all. `on_progress` gets the numbers of files, bytes and damaged files so far,
    from one thread at a time. Raises `NotFound`, and what `status` raises. A node that fails is in the answer."""
    table = None if name is None else cluster.facts(name).table
    status = cluster.status()
    request = ScrubTicket(
        cluster_id=status.cluster_id, revision=status.revision, table=table, login=node_login(cluster.token)
    )
    totals = _Totals(on_progress)
    with ThreadPoolExecutor(max_workers=SCRUB_NODES_AT_ONCE) as pool:
        return tuple(pool.map(lambda node: _scrub_node(node, request, totals, cluster.tls), status.nodes))


class _Totals:
    def __init__(self, on_progress: Callable[[int, int, int], None]) -> None:
        self._on_progress = on_progress
        self._lock = Lock()
        self._found: dict[tuple[NodeId, ObjectId], ScrubbedTable] = {}

    def heard(self, node: NodeId, found: ScrubbedTable) -> None:
        with self._lock:
            self._found[node, found.table] = found
            all_of_them = self._found.values()
            self._on_progress(
                sum(one.files for one in all_of_them),
                sum(one.size_bytes for one in all_of_them),
                sum(one.damaged for one in all_of_them),
            )


def _scrub_node(node: NodeStatus, request: ScrubTicket, totals: _Totals, tls: TlsSource | None) -> ScrubbedNode:
    tables: dict[ObjectId, ScrubbedTable] = {}
    error: str | None = None
    try:
        if node.state != "ACTIVE":
            raise Unreachable(f"it is {node.state}")
        _read(node, request, tables, totals, tls)
    except LeaseholdError as failure:
        error = f"{failure.text} ({failure.code})"
    return ScrubbedNode(node=node.id, name=node.name, tables=tuple(tables.values()), error=error)


def _read(
    node: NodeStatus,
    request: ScrubTicket,
    tables: dict[ObjectId, ScrubbedTable],
    totals: _Totals,
    tls: TlsSource | None,
) -> None:
    with calling(node.address):
        reader = writer_to(node.address, tls, node.name).do_get(ticket(request), within(SCRUB_CALL_NS, request))
        try:
            for chunk in reader:
                batch: pa.RecordBatch = chunk.data
                for value in batch.column(0):
                    found = decode_message(value.as_py())
                    if isinstance(found, ScrubEnd):
                        return
                    if not isinstance(found, ScrubbedTable):
                        raise BadMessage(f"a {type(found).__name__} came instead of what a scrub has found")
                    tables[found.table] = found
                    totals.heard(node.id, found)
        finally:
            reader.cancel()
    raise Unreachable(f"{node.address}: the stream ended before its end")
