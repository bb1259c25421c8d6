"""How the tasks of one read or write reach the cluster: what the driver sends to them.

Tasks may run on other machines, so they get no path where they can do without. Where the cluster has users they get a
login for this read or write alone (`core/access/delegation.py`), and the authorities to trust themselves. A cluster
without users knows its callers by their certificates alone, whose keys stay in their files: tasks get the path.
"""

import msgspec

from leasehold.client.cluster import Cluster
from leasehold.core.data.known import Known
from leasehold.ids import LoginToken, ObjectId, Revision, TransactionId
from leasehold.wire.tls import Tls


class ClusterEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Where the cluster is, whom to trust, and a login; `revision` is that from which on nodes know it."""

    address: str
    tls: str | Tls
    token: LoginToken | None
    revision: Revision = Revision(0)

    def __repr__(self) -> str:
        return f"ClusterEntry({self.address!r})"

    def connect(self, known: Known | None = None) -> Cluster:
        return Cluster(self.address, token=self.token, known=known, tls=self.tls)


def entry_for(
    cluster: Cluster,
    table: ObjectId,
    *,
    application: bytes,
    through: tuple[ObjectId, ...] = (),
    transaction: TransactionId | None = None,
) -> ClusterEntry:
    """For reading the table through these views or, with a transaction, for writing to it; `application` renews it."""
    if cluster.token is None:
        return ClusterEntry(address=cluster.address, tls=cluster.trusted, token=None)
    login = cluster.delegate(table, through=through, transaction=transaction, application=application)
    shown = None if cluster.tls is None else cluster.tls.now()
    tls = cluster.trusted if shown is None else Tls(authority=shown.authority, roots=shown.roots)
    return ClusterEntry(address=cluster.address, tls=tls, token=login.token, revision=login.revision)
