"""What an administrator does to an etcd of tests: users, rights, alarms, defragmentation."""

from typing import Annotated

import grpc

from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.etcd.endpoint import EtcdEndpoint
from leasehold.metastorage.etcd.messages import (
    AUTHENTICATE,
    STATUS,
    AuthenticateRequest,
    EtcdAnswer,
    EtcdMessage,
    EtcdMethod,
)

READ_AND_WRITE = 2
DEACTIVATE = 2
NOSPACE = 1


class Words(EtcdMessage, frozen=True, kw_only=True):
    """The requests of users and roles: names, and a password."""

    first: Annotated[str, 1] = ""
    second: Annotated[str, 2] = ""


class Permission(EtcdMessage, frozen=True, kw_only=True):
    kind: Annotated[int, 1] = READ_AND_WRITE
    key: Annotated[bytes, 2] = b""
    range_end: Annotated[bytes, 3] = b""


class GrantPermission(EtcdMessage, frozen=True, kw_only=True):
    role: Annotated[str, 1] = ""
    permission: Annotated[Permission, 2] = Permission()


class AlarmRequest(EtcdMessage, frozen=True, kw_only=True):
    action: Annotated[int, 1] = DEACTIVATE
    member_id: Annotated[int, 2] = 0
    alarm: Annotated[int, 3] = NOSPACE


class EtcdAdministrator:
    """At one member, in plain text unless there are `credentials`."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None = None) -> None:
        self._endpoint = EtcdEndpoint(address, credentials)
        self._token = ""

    async def ask(self, path: str, request: EtcdMessage) -> None:
        method = EtcdMethod(f"/etcdserverpb.{path}", type(request), EtcdAnswer, needs_leader=False)
        await self._endpoint.call(method, request, token=self._token, timeout_ns=20 * SECOND_NS)

    async def enable_users(self, user: str, password: str, prefix: str) -> None:
        """From now on only `user` may use the keys below `prefix`, and root all."""
        await self.ask("Auth/UserAdd", Words(first="root", second="root"))
        await self.ask("Auth/UserGrantRole", Words(first="root", second="root"))
        await self.ask("Auth/UserAdd", Words(first=user, second=password))
        await self.ask("Auth/RoleAdd", Words(first="role"))
        permission = Permission(key=f"{prefix}/".encode(), range_end=f"{prefix}0".encode())
        await self.ask("Auth/RoleGrantPermission", GrantPermission(role="role", permission=permission))
        await self.ask("Auth/UserGrantRole", Words(first=user, second="role"))
        await self.ask("Auth/AuthEnable", EtcdMessage())
        await self.log_in()

    async def log_in(self) -> None:
        """As root, once there are users."""
        request = AuthenticateRequest(name="root", password="root")
        self._token = (await self._endpoint.call(AUTHENTICATE, request, timeout_ns=20 * SECOND_NS)).token

    async def end_tokens(self, user: str, password: str) -> None:
        """By setting the password, even to what it is."""
        await self.ask("Auth/UserChangePassword", Words(first=user, second=password))

    async def defragment(self) -> None:
        await self.ask("Maintenance/Defragment", EtcdMessage())

    async def clear_alarm(self) -> None:
        """That of this member."""
        status = await self._endpoint.call(STATUS, EtcdMessage(), timeout_ns=20 * SECOND_NS)
        await self.ask("Maintenance/Alarm", AlarmRequest(member_id=status.header.member_id))

    async def close(self) -> None:
        await self._endpoint.close()
