"""Handing the leadership to another coordinator, as a client asks for it until another one leads.

| step | asks | ends with |
| --- | --- | --- |
| 1 | who leads, until one does | its address and term |
| 2 | the successor, or all others until one stands by | a refusal, and nothing has changed |
| 3 | the leader to hand over this very term | an answer, also from a leader of a later term, which does nothing |
| 4 | who leads a later term, until one does | its address and term |
"""

from functools import partial

import msgspec

from leasehold.core.data.asking import Asking
from leasehold.core.data.coordinator_client import (
    QUESTION_AGAIN,
    CoordinatorClient,
    CoordinatorRole,
    Deadline,
    Unknown,
)
from leasehold.core.words.messages import ClusterFacts, LeadershipEnds, TransferLeadership
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotLeader, OutcomeUnknown, Refused, Unreachable
from leasehold.ids import Term


class NewLeader(msgspec.Struct, frozen=True, kw_only=True):
    """Who leads after a transfer, and how long the change took."""

    address: str
    term: Term
    elapsed_ns: int


async def transfer_leadership(client: CoordinatorClient, successor: str | None, asking: Asking) -> NewLeader:
    """Makes the coordinator at the address `successor` lead; any other than the present leader without it.

    Raises `Refused` (NO_SUCCESSOR, LEADS_ALREADY) and `Unreachable`, and then nothing has changed; `OutcomeUnknown` if
    the leader was asked, and nobody has said since who leads. If the leadership went elsewhere, NO_SUCCESSOR says who
    leads.
    """
    old, facts = await _leader(client, asking, above=Term(0))
    await _check_successor(client, old, successor)
    request = TransferLeadership(cluster_id=facts.cluster_id, term=facts.term, successor=successor or "")
    unknown = partial(OutcomeUnknown, hint="`leasehold status` shows who leads")
    began_ns = client.now_ns()
    await client.until_answered(client.question(request, LeadershipEnds), asking, unknown=unknown)
    new, facts = await _leader(client, asking, above=facts.term, asked=unknown)
    if new == old:
        raise _not_taken(f"{old} leads again, in term {facts.term}: no other coordinator has taken over")
    if successor not in {None, new}:
        raise _not_taken(f"{new} leads now, in term {facts.term}: {successor} has not taken over in time")
    return NewLeader(address=new, term=facts.term, elapsed_ns=client.now_ns() - began_ns)


async def _leader(
    client: CoordinatorClient, asking: Asking, *, above: Term, asked: Unknown | None = None
) -> tuple[str, ClusterFacts]:
    """The address and the words of a leader of a term above this one; waits until there is one. `asked` makes the error
    if a leader was asked to hand over."""

    async def ask(address: str, deadline: Deadline) -> tuple[str, ClusterFacts]:
        facts = await client.leader(address, deadline)
        if facts.term <= above:
            raise NotLeader(f"{address} still hands over")
        return address, facts

    return await client.until_answered(ask, asking, unknown=asked, may_be_taken=asked is not None, again=QUESTION_AGAIN)


async def _check_successor(client: CoordinatorClient, leader: str, successor: str | None) -> None:
    """Raises unless the successor, or without one any coordinator besides the leader, stands by."""
    if successor == leader:
        raise Refused(f"{leader} leads already", code=ErrorCode.LEADS_ALREADY, hint="no action is needed")
    roles = await client.roles()
    if successor is None:
        if not any(role is CoordinatorRole.FOLLOWER for address, role in roles.items() if address != leader):
            raise Refused(
                f"no coordinator that is known answers besides {leader}, which leads",
                code=ErrorCode.NO_SUCCESSOR,
                hint="start another coordinator, or name all of them: `leasehold status` shows those that are known",
            )
    elif roles[successor] is CoordinatorRole.SILENT:
        raise Unreachable(
            f"{successor} does not answer, and the leadership stays where it is",
            hint="start it, or choose another one: `leasehold status` shows the coordinators",
        )


def _not_taken(text: str) -> Refused:
    return Refused(text, code=ErrorCode.NO_SUCCESSOR, hint="`leasehold status` shows the coordinators; then ask again")
