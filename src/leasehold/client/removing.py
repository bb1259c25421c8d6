"""Removing a node, as a client asks for it: again and again, until it knows how that ended."""

from collections.abc import Callable

import msgspec

from leasehold.client.login import LoginConnection
from leasehold.core.messages import AskStatus, ClusterStatus, Message, NodeRemoved, RemoveNode, WaitingFor
from leasehold.errors import Indefinite, NotInitialised, NotLeader, OutcomeUnknown, Refused, Unreachable
from leasehold.ids import NodeId
from leasehold.limits import CALL_TIMEOUT_NS, RETRY_PAUSE_NS, SECOND_NS, STATEMENT_RESOLVE_NS
from leasehold.wire.clock import BoottimeClock, sleep_ns


def remove_node(
    connection: LoginConnection, name: str, *, force: bool, on_wait: Callable[[WaitingFor], None] | None
) -> NodeRemoved:
    """Which node it is, is looked up once: asked for again, the name may have another owner.

    Raises what the leader says, `OutcomeUnknown` once nothing was heard for STATEMENT_RESOLVE_NS.
    """
    clock = BoottimeClock()
    request = RemoveNode(cluster_id=None, name=name, force=force)
    heard_ns = clock.now_ns()
    while True:
        try:
            if request.node is None:
                request = msgspec.structs.replace(request, node=_number(connection, name))
            for message in connection.stream(request, STATEMENT_RESOLVE_NS):
                heard_ns = clock.now_ns()
                match message:
                    case WaitingFor():
                        if on_wait is not None:
                            on_wait(message)
                    case NodeRemoved():
                        return message
                    case _:
                        raise _strange(message)
            raise Unreachable("the answer broke off", hint="ask again")
        except (Indefinite, NotInitialised, NotLeader) as error:
            if clock.now_ns() - heard_ns >= STATEMENT_RESOLVE_NS:
                raise OutcomeUnknown(
                    f"nothing was heard of the removal for {STATEMENT_RESOLVE_NS // SECOND_NS} s: {error}",
                    hint="ask again: a node that is removed already is told so",
                ) from error
        sleep_ns(RETRY_PAUSE_NS)


def _number(connection: LoginConnection, name: str) -> NodeId | None:
    """Of the node in the cluster that has this name now; None if there is none: the leader knows about others."""
    status = connection.call(AskStatus(), CALL_TIMEOUT_NS)
    if not isinstance(status, ClusterStatus):
        raise _strange(status)
    return next((one.id for one in status.nodes if one.name == name), None)


def _strange(message: Message) -> Refused:
    return Refused(f"answered with {type(message).__name__}", code="BAD_MESSAGE", hint="upgrade")
