"""Removing a node, as a client asks for it: again and again, until it knows how that ended."""

from collections.abc import Callable

import msgspec

from leasehold.client.login import LoginConnection
from leasehold.core.data.asking import Asking
from leasehold.core.words.messages import AskStatus, ClusterStatus, Message, NodeRemoved, RemoveNode, WaitingFor
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, NotInitialised, NotLeader, OutcomeUnknown, Refused, Unreachable
from leasehold.ids import NodeId
from leasehold.limits.clients import CALL_TIMEOUT_NS, RETRY_PAUSE_NS, STATEMENT_RESOLVE_NS
from leasehold.wire.clock import BoottimeClock, sleep_ns


def remove_node(
    connection: LoginConnection,
    name: str,
    *,
    force: bool,
    on_wait: Callable[[WaitingFor], None] | None,
    asking: Asking,
) -> NodeRemoved:
    """Which node it is, is looked up once: asked for again, the name may have another owner.

    Raises what the leader says. Once nothing was heard for as long as `asking` says, it raises `Unreachable` where the
    removal was not asked for, else `OutcomeUnknown`.
    """
    clock = BoottimeClock()
    request = RemoveNode(cluster_id=None, name=name, force=force)
    heard_ns, is_sent = clock.now_ns(), False
    while True:
        try:
            if request.node is None:
                request = msgspec.structs.replace(request, node=_number(connection, name, asking))
            is_sent = True
            for message in connection.stream(request, STATEMENT_RESOLVE_NS):
                heard_ns = clock.now_ns()
                asking.answered()
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
            left_ns = heard_ns + asking.for_ns - clock.now_ns()
            if left_ns <= 0:
                if not is_sent:
                    text = f"no answer within {asking.seconds()}: {error}"
                    raise Unreachable(text, hint="the removal was not asked for") from error
                raise OutcomeUnknown(
                    f"nothing was heard of the removal for {asking.seconds()}: {error}",
                    hint="ask again: a node that is removed already is told so",
                ) from error
            asking.again(error, left_ns)
        sleep_ns(RETRY_PAUSE_NS)


def _number(connection: LoginConnection, name: str, asking: Asking) -> NodeId | None:
    """Of the node in the cluster that has this name now; None if there is none: the leader knows about others."""
    status = connection.call(AskStatus(), min(CALL_TIMEOUT_NS, asking.for_ns))
    if not isinstance(status, ClusterStatus):
        raise _strange(status)
    return next((one.id for one in status.nodes if one.name == name), None)


def _strange(message: Message) -> Refused:
    return Refused(f"answered with {type(message).__name__}", code=ErrorCode.BAD_MESSAGE, hint="upgrade")
