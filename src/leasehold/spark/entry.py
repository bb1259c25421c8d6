"""How the tasks of one read or write reach the cluster: what the driver sends to them.

Tasks may run on other machines, so they get no path where they can do without. Where the cluster has users they get a
login for this read or write alone (`core/access/delegation.py`), and the authorities to trust themselves. A cluster
without users knows its callers by their certificates alone, whose keys stay in their files: tasks get the path.

**A Python worker keeps its clients.** It runs many tasks, one after the other. When a task has ended without an error,
its client serves the next task of the same entry, which then makes no new connection. After an error the client is
closed, so a repeated task connects anew. Spark forks a worker before its first task, so no connection is made before a
fork.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from leasehold.client.coordinators import Coordinators
from leasehold.core.data.known import Known
from leasehold.ids import LoginToken, ObjectId, Revision, TransactionId
from leasehold.limits.clients import WORKER_CLIENTS_MAX
from leasehold.wire.tls import Tls

if TYPE_CHECKING:
    from leasehold.client.cluster import Cluster  # few tasks need it

C = TypeVar("C", bound=Coordinators)


class ClusterEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Where the cluster is, whom to trust, and a login; `revision` is that from which on nodes know it."""

    address: str
    tls: str | Tls
    token: LoginToken | None
    revision: Revision = Revision(0)

    def __repr__(self) -> str:
        return f"ClusterEntry({self.address!r})"

    def connect(self, kind: type[C], known: Known | None = None) -> C:
        """A new client, for a Python process of Spark."""
        freeze_modules()
        return kind(self.address, token=self.token, known=known, tls=self.tls)

    @contextmanager
    def kept(self, kind: type[C], known: Known) -> Generator[C]:
        """For one task: the client of an earlier task of this process, or a new one."""
        client = _KEPT.pop((self, kind), None)
        if client is not None and client.known is not known:  # of an earlier cluster with this address
            client.close()
            client = None
        client = client or self.connect(kind, known)
        assert isinstance(client, kind)
        try:
            yield client
        except BaseException:
            client.close()
            raise
        _KEPT[self, kind] = client
        if len(_KEPT) > WORKER_CLIENTS_MAX:
            _KEPT.pop(next(iter(_KEPT))).close()


_KEPT: Final[dict[tuple[ClusterEntry, type[Coordinators]], Coordinators]] = {}
"""The clients of this process that no task uses at the moment; the one that was used last comes last."""


@cache
def freeze_modules() -> None:
    """Takes what is loaded by now out of the collection of garbage. Spark's daemon collects after every task, and would
    look through all modules each time, which takes longer than a small task."""
    gc.freeze()


def entry_for(
    cluster: "Cluster",
    table: ObjectId,
    *,
    application: bytes,
    through: tuple[ObjectId, ...] = (),
    transaction: TransactionId | None = None,
    replaces: bool = False,
) -> ClusterEntry:
    """For reading the table through these views or, with a transaction, for writing to it and, if it `replaces` rows,
    for that; `application` renews it."""
    if cluster.token is None:
        return ClusterEntry(address=cluster.address, tls=cluster.trusted, token=None)
    login = cluster.delegate(
        table, through=through, transaction=transaction, application=application, replaces=replaces
    )
    shown = None if cluster.tls is None else cluster.tls.now()
    tls = cluster.trusted if shown is None else Tls(authority=shown.authority, roots=shown.roots)
    return ClusterEntry(address=cluster.address, tls=tls, token=login.token, revision=login.revision)
