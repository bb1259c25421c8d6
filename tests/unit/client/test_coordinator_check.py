"""What a client says of the process that it asks for a proof, before it sends anything secret."""

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from leasehold.client.coordinator_check import check_of
from leasehold.client.locate import CLUSTER_FILE, CLUSTER_FILE_VERSION, KEY_FILE, ClusterFile
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, Forbidden, NotLeader, Refused
from leasehold.ids import ClusterId
from leasehold.wire import cluster_key
from leasehold.wire.blocking import BlockingConnection


class Declines:
    """A connection to a process that answers each question with an error."""

    def __init__(self, error: Definite) -> None:
        self._error = error

    def call(self, *_: Any) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Forbidden("revoked", code=ErrorCode.CERTIFICATE_REVOKED), "CERTIFICATE_REVOKED"),
        (NotLeader("another leads"), "NOT_LEADER"),
        (Refused("no key", code=ErrorCode.NO_CLUSTER_KEY), "COORDINATOR_UNPROVEN"),
    ],
)
def test_a_refusal_is_told_as_it_is_if_the_client_can_do_something_about_it(
    tmp_path: Path, error: Definite, code: str
) -> None:
    cluster_key.generate(tmp_path / KEY_FILE)
    file = ClusterFile(
        format=CLUSTER_FILE_VERSION, cluster_id=ClusterId("c" * 32), coordinators={"coordinator": "c:1"}, nodes=()
    )
    (tmp_path / CLUSTER_FILE).write_bytes(msgspec.json.encode(file))
    check = check_of(tmp_path, "c:1")
    assert check is not None
    with pytest.raises(Definite) as caught:
        check(cast("BlockingConnection", Declines(error)), 1)
    assert caught.value.code == code
