"""A check that a process is a coordinator of the cluster, before it gets a secret: another process may have its port.

A client that was given a cluster's directory finds the cluster key there. It sends a challenge, and the coordinator
answers with a proof that nobody else can make (`core/membership/proofs.py`). A client that was given `host:port` has no
key.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from leasehold.client.locate import KEY_FILE, read_cluster_file
from leasehold.core.membership.proofs import Challenge, derive_keys
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite
from leasehold.ids import Nonce
from leasehold.wire import cluster_key
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.entropy import SystemEntropy

CoordinatorCheck: TypeAlias = Callable[[BlockingConnection, int], None]
"""Asks the process at the other end of a connection for a proof, within a timeout in nanoseconds.

Raises `Refused` (COORDINATOR_UNPROVEN), `Forbidden` (CERTIFICATE_REVOKED), `BadSettings` for a damaged key, and what
`BlockingConnection.call` raises.
"""


def check_of(target: str | Path, address: str) -> CoordinatorCheck | None:
    """The check for the coordinator of `target` at `address`; None where `target` is no directory with a key that this
    user may read.

    The key is read anew for each challenge, and nothing keeps it.
    """
    directory = Path(target)
    key_file = directory / KEY_FILE
    if not directory.is_dir() or not os.access(key_file, os.R_OK):
        return None
    cluster_id = read_cluster_file(directory).cluster_id

    def check(connection: BlockingConnection, timeout_ns: int) -> None:
        keys = derive_keys(*cluster_key.read(key_file))
        challenge = Challenge(cluster_id, address, Nonce(SystemEntropy().hex_128()), keys)
        try:
            answer = connection.call(challenge.request, timeout_ns)
        except Definite as error:
            if error.code == ErrorCode.CERTIFICATE_REVOKED:
                raise  # it is this client's, and nothing secret was sent
            raise challenge.refusal(error) from error
        challenge.check(answer)

    return check
