"""Whether a coordinator is one of the cluster, asked before it is sent a secret: another process may have its port.

A client that was given a cluster's directory finds the cluster key there. It sends a challenge, and the coordinator
answers with a proof that nobody else can make (`core/proofs.py`). A client that was given `host:port` has no key.
"""

import hmac
import os
from pathlib import Path
from typing import Final

from leasehold.client.locate import KEY_FILE, read_cluster_file
from leasehold.core.messages import ChallengeCoordinator, CoordinatorProof
from leasehold.core.proofs import coordinator_proof, derive_keys
from leasehold.errors import Definite, NotInitialised, NotLeader, Refused
from leasehold.ids import ClusterId, Nonce
from leasehold.limits import CALL_TIMEOUT_NS
from leasehold.wire import cluster_key
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.entropy import SystemEntropy

UNPROVEN: Final = "COORDINATOR_UNPROVEN"


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
        challenge = ChallengeCoordinator(
            cluster_id=self._cluster_id, address=self._address, nonce=Nonce(SystemEntropy().hex_128())
        )
        try:
            answer = connection.call(challenge, timeout_ns)
        except (NotInitialised, NotLeader):
            raise  # the caller asks again: nothing secret was sent yet
        except Definite as error:
            raise self._unproven(f"it answered: {error.text}") from error
        if not isinstance(answer, CoordinatorProof):
            raise self._unproven(f"it answered with {type(answer).__name__}")
        if not hmac.compare_digest(answer.proof, coordinator_proof(challenge, keys)):
            raise self._unproven("its proof is wrong")

    def _unproven(self, why: str) -> Refused:
        return Refused(
            f"the process at {self._address} does not prove that it is the coordinator of cluster {self._cluster_id},"
            f" so no password and no statement was sent: {why}",
            code=UNPROVEN,
            hint=f"see which process listens there, as with `ss -ltnp`; if it is the coordinator, start it again with"
            f" --cluster-key {self._key_file}, as `leasehold up` does",
        )


def check_of(target: str | Path, address: str) -> CoordinatorCheck | None:
    """The check for the coordinator of `target`, a cluster's directory; None without a key that this user may read."""
    directory = Path(target)
    key_file = directory / KEY_FILE
    if str(target) == address or not os.access(key_file, os.R_OK):
        return None
    return CoordinatorCheck(address, read_cluster_file(directory).cluster_id, key_file)
