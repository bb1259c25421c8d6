"""What a person can do about a refusal that ends a node, by its code."""

from typing import Final

from leasehold.core.words.messages import RenewalRefused
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, Superseded, Unreachable, typed

RESET: Final = "`leasehold node reset --dir {directory}` moves its contents aside, and its next start gets a new id"
RESTORE: Final = (
    "if the meta storage was restored from an older backup, restore the newest; if it is lost, stop the"
    " coordinator and run"
    " `leasehold recover` on its directory"
)
REMEDIES: Final = {
    ErrorCode.AHEAD_OF_CLUSTER: f"{RESTORE}; otherwise {RESET}",
    ErrorCode.DIVERGED: f"{RESTORE}; otherwise {RESET}",
    ErrorCode.NOT_ASCENDING: RESET,
    ErrorCode.BAD_SNAPSHOT: "check memory, disk and network of this machine and the leader's, start it again;"
    f" otherwise {RESET}",
    ErrorCode.OTHER_CLUSTER: f"check the coordinator's address; to move this machine to that cluster: {RESET}",
    ErrorCode.NOT_A_MEMBER: "name the key file of the coordinator's cluster with `--cluster-key FILE`, or as"
    " cluster_key in its --config file; `leasehold up --dir DIR` keeps it in DIR/cluster.key",
    ErrorCode.COORDINATOR_UNPROVEN: "see which process listens there, for example with `ss -ltnp`; if it is the"
    " coordinator, name the key file of its cluster with `--cluster-key FILE` on both sides, and name an address that"
    " the coordinator listens on or advertises",
    ErrorCode.REMOVED: RESET,
    ErrorCode.WRONG_TOKEN: f"start this node from its own directory, or {RESET}",
    ErrorCode.UNKNOWN_NODE: f"the meta storage may be older than this node: restore the newest; otherwise {RESET}",
    ErrorCode.STALE_COPY: "start the newest directory of this node; if it is lost, `leasehold node adopt --dir"
    f" {{directory}}` continues with this copy; to run this machine as another node, {RESET}",
    ErrorCode.BEYOND_RECOVERY: "`leasehold node adopt --dir {directory}` makes it continue as this node with what the"
    " cluster knows, and verifies each segment; its present contents stay in {directory}/before-adopt-<n>, from which"
    " `leasehold node start --standalone --export` gets rows",
    ErrorCode.OTHER_GENERATION: "start this node again: it recovers by itself, or its error says what to do",
    ErrorCode.ALIVE_ELSEWHERE: "stop one of the two processes; to run this machine as another node,"
    f" {RESET}, with another --name",
    ErrorCode.NAME_TAKEN: "choose another --name; if that node is gone for good, `leasehold node remove {name}` frees"
    " its name",
    ErrorCode.SUPERSEDED: "`leasehold status` shows which process serves; this process ends",
}


FINAL: Final = frozenset(
    {ErrorCode.SUPERSEDED, ErrorCode.REMOVED, ErrorCode.DIVERGED, ErrorCode.OTHER_CLUSTER, ErrorCode.NOT_JOINED}
)
"""Refusals of a renewal after which this process must not go on."""


def with_remedy(error: Definite, *, name: str, directory: str) -> Definite:
    remedy = REMEDIES.get(error.code)
    if remedy is None:
        return error
    text = error.text if name in error.text.split() else f"node {name}: {error.text}"
    return type(error)(text, code=error.code, hint=remedy.format(name=name, directory=typed(directory)))


def raise_unless_temporary(refused: RenewalRefused) -> None:
    """Raises `Superseded` if this process will never get a lease again, `Unreachable` if another leader may grant."""
    if refused.code in FINAL:
        raise Superseded(
            refused.text, code=ErrorCode(refused.code), hint="`leasehold status` shows which process serves"
        )
    if refused.code == ErrorCode.NOT_LEADER:
        raise Unreachable(refused.text, hint="the node asks another coordinator")
