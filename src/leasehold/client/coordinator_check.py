"""Whether a coordinator is one of the cluster, asked before it is sent a secret: another process may have its port.

A client that was given a cluster's directory finds the cluster key there. It sends a challenge, and the coordinator
answers with a proof that nobody else can make (`core/membership/proofs.py`). A client that was given `host:port` has no
key.
"""

import os
from pathlib import Path

from leasehold.client.locate import KEY_FILE, read_cluster_file
from leasehold.core.membership.proofs import Challenge, derive_keys
from leasehold.errors import Definite
from leasehold.ids import ClusterId, Nonce
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.wire import cluster_key
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.entropy import SystemEntropy


class CoordinatorCheck:
    """For one address of one cluster; the key is read anew for each challenge, and nothing keeps it."""

    def __init__(self, address: str, cluster_id: ClusterId, key_file: Path) -> None:
        self._address = address
        self._cluster_id = cluster_id
        self._key_file = key_file

    def ask(self, connection: BlockingConnection, timeout_ns: int = CALL_TIMEOUT_NS) -> None:
        """Has whoever answers on `connection` prove itself. Raises `Refused` (COORDINATOR_UNPROVEN), `BadSettings` for
        a damaged key, and what `BlockingConnection.call` raises where a coordinator can't answer now."""
        keys = derive_keys(cluster_key.read(self._key_file))
        challenge = Challenge(self._cluster_id, self._address, Nonce(SystemEntropy().hex_128()), keys)
        try:
            answer = connection.call(challenge.request, timeout_ns)
        except Definite as error:
            raise challenge.refusal(error) from error
        challenge.check(answer)


def check_of(target: str | Path, address: str) -> CoordinatorCheck | None:
    """The check for the coordinator of `target`, a cluster's directory; None without a key that this user may read."""
    directory = Path(target)
    key_file = directory / KEY_FILE
    if str(target) == address or not os.access(key_file, os.R_OK):
        return None
    return CoordinatorCheck(address, read_cluster_file(directory).cluster_id, key_file)
