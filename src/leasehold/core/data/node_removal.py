"""Removing a node, as a client asks for it until it knows how that ended."""

from collections.abc import Callable
from contextlib import aclosing
from functools import partial

from leasehold.core.data.asking import Asking
from leasehold.core.data.coordinator_client import CoordinatorClient, Deadline
from leasehold.core.words.messages import AskStatus, ClusterStatus, NodeRemoved, RemoveNode, WaitingFor
from leasehold.errors import OutcomeUnknown, Unreachable, unexpected_answer
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

    Raises the leader's refusal. At the deadline of `asking` it raises `Unreachable` if no coordinator has taken the
    removal, else `OutcomeUnknown`.
    """
    look_up = client.question(AskStatus(), ClusterStatus)
    status = await client.until_answered(look_up, asking)
    # Without a number the leader says that there is no such node, or that it is removed already.
    number = next((one.id for one in status.nodes if one.name == name), None)
    request = RemoveNode(cluster_id=None, name=name, node=number, force=force)

    async def ask(address: str, deadline: Deadline) -> NodeRemoved:
        async with aclosing(client.calls.stream(address, request, STATEMENT_RESOLVE_NS)) as messages:
            async for message in messages:
                deadline.renew()
                asking.answered()
                match message:
                    case WaitingFor():
                        deadline.may_be_taken = True
                        if on_wait is not None:
                            on_wait(message)
                    case NodeRemoved():
                        return message
                    case _:
                        raise unexpected_answer(message)
        raise Unreachable("the answer ended too early", hint="ask again")

    unknown = partial(OutcomeUnknown, hint="ask again: the answer says so if the node is already removed")
    return await client.until_answered(ask, asking, unknown=unknown)
