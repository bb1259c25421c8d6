"""Removing a node, as a client asks for it until it knows how that ended."""

from collections.abc import Callable
from contextlib import aclosing

import msgspec

from leasehold.core.data.asking import Asking
from leasehold.core.data.coordinator_client import CoordinatorClient, Deadline
from leasehold.core.words.messages import AskStatus, ClusterStatus, NodeRemoved, RemoveNode, WaitingFor
from leasehold.errors import LeaseholdError, OutcomeUnknown, Unreachable, unexpected_answer
from leasehold.limits.clients import STATEMENT_RESOLVE_NS


async def remove_node(
    client: CoordinatorClient,
    name: str,
    asking: Asking,
    *,
    force: bool = False,
    on_wait: Callable[[WaitingFor], None] | None = None,
) -> NodeRemoved:
    """Looks the node up once, since its name may get another owner, and removes it.

    Raises the leader's refusal. At the deadline of `asking` it raises `Unreachable` if the removal was not requested,
    else `OutcomeUnknown`.
    """
    request = RemoveNode(cluster_id=None, name=name, force=force)
    is_sent = False

    async def ask(address: str, deadline: Deadline) -> NodeRemoved:
        nonlocal request, is_sent
        if request.node is None:
            status = await client.question(AskStatus(), ClusterStatus)(address, deadline)
            # Without a number the leader says that there is no such node, or that it is removed already.
            number = next((one.id for one in status.nodes if one.name == name), None)
            request = msgspec.structs.replace(request, node=number)
        is_sent = True
        async with aclosing(client.calls.stream(address, request, STATEMENT_RESOLVE_NS)) as messages:
            async for message in messages:
                deadline.renew()
                asking.answered()
                match message:
                    case WaitingFor():
                        if on_wait is not None:
                            on_wait(message)
                    case NodeRemoved():
                        return message
                    case _:
                        raise unexpected_answer(message)
        raise Unreachable("the answer ended too early", hint="ask again")

    def unanswered(text: str) -> LeaseholdError:
        if is_sent:
            return OutcomeUnknown(text, hint="ask again: the answer says so if the node is already removed")
        return Unreachable(text, hint="the removal was not requested")

    return await client.until_answered(ask, unanswered, asking)
