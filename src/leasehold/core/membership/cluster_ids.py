"""Which cluster a request is meant for."""

from leasehold.core.words.messages import Allocate, AskIncarnation, Join, Message
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import ClusterId


def check_same_cluster(request: Message, ours: ClusterId) -> None:
    """Raises `Refused` (OTHER_CLUSTER) for a request that names another cluster; `core/membership/admission.py` answers
    nodes that ask to join."""
    asked: ClusterId | None = getattr(request, "cluster_id", None)
    if asked is None or asked == ours or isinstance(request, Allocate | AskIncarnation | Join):
        return
    raise Refused(
        f"this is cluster {ours}, the request is for {asked[:64]}",
        code=ErrorCode.OTHER_CLUSTER,
        hint="connect again: another cluster has taken this address",
    )
