"""Makes an etcd that nobody else uses demand a login.

etcd has no users at first. Its user root, who alone may do everything, is made with a password; then logins are
demanded, and each request needs a token. Every step may have been done already: by a run of this that was interrupted.
"""

from typing import Annotated, Final

from leasehold.limits.etcd import ETCD_LOGIN_NS
from leasehold.metastorage.etcd.endpoint import EtcdEndpoint
from leasehold.metastorage.etcd.messages import (
    AUTHENTICATE,
    A,
    AuthenticateRequest,
    EtcdAnswer,
    EtcdMessage,
    EtcdMethod,
)
from leasehold.metastorage.etcd.protobuf import M
from leasehold.metastorage.etcd.statuses import TokenRefused
from leasehold.metastorage.tries import TryFailed

ROOT: Final = "root"
"""The user who may do everything, and the role that says so: etcd prescribes the name."""
_NOT_DEMANDED: Final = "authentication is not enabled"
_THERE: Final = "user name already exists"


class UserPassword(EtcdMessage, frozen=True, kw_only=True):
    """Names a user, with a password to be."""

    name: Annotated[str, 1] = ""
    password: Annotated[str, 2] = ""

    def __repr__(self) -> str:
        return f"UserPassword(name={self.name!r})"


class UserRole(EtcdMessage, frozen=True, kw_only=True):
    """Names a user, with a role to be."""

    user: Annotated[str, 1] = ""
    role: Annotated[str, 2] = ""


USER_ADD: Final = EtcdMethod("/etcdserverpb.Auth/UserAdd", UserPassword, EtcdAnswer)
USER_CHANGE_PASSWORD: Final = EtcdMethod("/etcdserverpb.Auth/UserChangePassword", UserPassword, EtcdAnswer)
USER_GRANT_ROLE: Final = EtcdMethod("/etcdserverpb.Auth/UserGrantRole", UserRole, EtcdAnswer)
AUTH_ENABLE: Final = EtcdMethod("/etcdserverpb.Auth/AuthEnable", EtcdMessage, EtcdAnswer)


async def demand_login(endpoint: EtcdEndpoint, password: str) -> None:
    """Returns once the member at `endpoint` lets root in with the password, and nobody without a login. Raises
    `TryFailed` if it may go better later, `StoreDenied` if root has another password, and all else as `call`."""
    try:
        await _log_in(endpoint, password)
    except TryFailed as failed:
        if _NOT_DEMANDED not in failed.reason:
            raise
    else:
        return
    root = UserPassword(name=ROOT, password=password)
    try:
        await _ask(endpoint, USER_ADD, root)
    except TryFailed as failed:
        if _THERE not in failed.reason:
            raise
        await _ask(endpoint, USER_CHANGE_PASSWORD, root)
    await _ask(endpoint, USER_GRANT_ROLE, UserRole(user=ROOT, role=ROOT))
    await _ask(endpoint, AUTH_ENABLE, EtcdMessage())
    await _log_in(endpoint, password)


async def _log_in(endpoint: EtcdEndpoint, password: str) -> None:
    await _ask(endpoint, AUTHENTICATE, AuthenticateRequest(name=ROOT, password=password))


async def _ask(endpoint: EtcdEndpoint, method: EtcdMethod[M, A], request: M) -> None:
    try:
        await endpoint.call(method, request, timeout_ns=ETCD_LOGIN_NS)
    except TokenRefused as refused:  # a login is demanded since the first question
        raise TryFailed(refused.reason, may_happen=False) from refused
