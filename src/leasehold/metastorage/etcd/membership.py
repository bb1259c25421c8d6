"""Gives a member of etcd that lost its data a new id, under which it may begin with nothing.

Under its old id it may have voted, and stored entries that it does not know any more. The others count on both. So the
old id is removed, and a new one is added at the same address. Each step can have been done before, by a run that was
interrupted. So whatever has this address is removed first, whether or not it ever started.
"""

from collections.abc import Sequence

from leasehold.errors import Unreachable
from leasehold.limits.etcd import ETCD_MEMBERSHIP_NS
from leasehold.limits.log import STORE_ROUND_PAUSE_NS
from leasehold.metastorage.etcd.client import EtcdClient
from leasehold.metastorage.etcd.messages import (
    MEMBER_ADD,
    MEMBER_LIST,
    MEMBER_REMOVE,
    EtcdMessage,
    MemberAddRequest,
    MemberRemoveRequest,
)
from leasehold.wire.ports import Clock


async def replace_member(others: Sequence[EtcdClient], peer_url: str, clock: Clock) -> None:
    """Returns once each of the other members knows a new member at `peer_url`. The process there does not run, and
    starts with no data. `others` are clients of one member each. Raises `Unreachable` or `Indefinite` if this has to be
    called again, from the beginning."""
    first = others[0]
    listed = await first.read(MEMBER_LIST, EtcdMessage())
    for one in listed.members:
        if peer_url in one.peer_urls:
            await first.write(MEMBER_REMOVE, MemberRemoveRequest(id=one.id))
    added = await first.write(MEMBER_ADD, MemberAddRequest(peer_urls=(peer_url,)))
    deadline_ns = clock.now_ns() + ETCD_MEMBERSHIP_NS
    for other in others:
        while not await _knows(other, added.member.id):
            if clock.now_ns() >= deadline_ns:
                text = f"etcd at {other.asks_first} has not heard of the new member"
                raise Unreachable(text, hint="try again")
            await clock.sleep_until(clock.now_ns() + STORE_ROUND_PAUSE_NS)


async def _knows(member: EtcdClient, wanted: int) -> bool:
    listed = await member.read(MEMBER_LIST, EtcdMessage())
    return any(one.id == wanted for one in listed.members)
