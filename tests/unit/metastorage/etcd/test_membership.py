"""How a member of etcd that lost its data gets another id."""

import grpc
import pytest

from leasehold.errors import Indefinite, Unreachable
from leasehold.metastorage.etcd.membership import replace_member
from leasehold.metastorage.etcd.messages import (
    MEMBER_ADD,
    MEMBER_LIST,
    MEMBER_REMOVE,
    EtcdAnswer,
    EtcdMember,
    MemberAddRequest,
    MemberAddResponse,
    MemberListResponse,
    MemberRemoveRequest,
)
from tests.unit.metastorage.etcd.fake_etcd import FakeEtcd, HastyClock, client, declining, served

LOST = "http://127.0.0.1:2"


class Members:
    """What the two fakes know of the members: the first at once, the second only if it `hears`."""

    def __init__(self, *, hears: bool = True) -> None:
        self.fakes = FakeEtcd(1), FakeEtcd(2)
        self.urls = {1: "http://127.0.0.1:1", 2: LOST, 3: "http://127.0.0.1:3"}
        self.next = 10
        first, second = self.fakes
        first.scripts = {MEMBER_LIST: self.listed, MEMBER_ADD: self.added, MEMBER_REMOVE: self.removed}
        second.scripts = {MEMBER_LIST: self.listed} if hears else {}

    async def listed(self, _request: object) -> EtcdAnswer:
        members = tuple(EtcdMember(id=number, peer_urls=(url,)) for number, url in self.urls.items())
        return MemberListResponse(header=self.fakes[0].header, members=members)

    async def added(self, request: MemberAddRequest) -> EtcdAnswer:
        (url,) = request.peer_urls
        number = self.next
        self.next += 1
        assert url not in self.urls.values()
        self.urls[number] = url
        return MemberAddResponse(header=self.fakes[0].header, member=EtcdMember(id=number, peer_urls=(url,)))

    async def removed(self, request: MemberRemoveRequest) -> EtcdAnswer:
        del self.urls[request.id]
        return EtcdAnswer(header=self.fakes[0].header)

    async def replace(self) -> None:
        async with served(*self.fakes) as addresses:
            clients = [client((one,)) for one in addresses]
            try:
                await replace_member(clients, LOST, HastyClock())
            finally:
                for one in clients:
                    await one.close()


async def test_the_old_id_is_removed_before_another_is_added() -> None:
    members = Members()
    await members.replace()
    assert members.urls == {1: "http://127.0.0.1:1", 3: "http://127.0.0.1:3", 10: LOST}
    assert [one for one in members.fakes[0].asked if one != "Status"][:3] == ["MemberList", "MemberRemove", "MemberAdd"]


async def test_it_can_be_repeated_after_each_of_its_steps() -> None:
    members = Members()
    del members.urls[2]  # after the removal
    await members.replace()
    assert members.urls[10] == LOST
    await members.replace()  # after the addition: nobody knows whether the member has started since
    assert sorted(members.urls) == [1, 3, 11]


async def test_it_ends_only_once_all_others_know_the_new_member() -> None:
    with pytest.raises(Unreachable, match="has not heard of the new member"):
        await Members(hears=False).replace()


async def test_what_etcd_declines_may_go_better_later() -> None:
    members = Members()
    members.fakes[0].scripts[MEMBER_ADD] = declining(grpc.StatusCode.UNAVAILABLE, "etcdserver: unhealthy cluster")
    with pytest.raises(Indefinite, match="unhealthy cluster"):
        await members.replace()
