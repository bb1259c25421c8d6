"""The messages and methods of etcd's version 3 that are used; of each message the fields that are used.

The names and numbers are those of etcd's own `rpc.proto` and `kv.proto`. Every field has protobuf's default.
"""

from typing import Annotated, Final, Generic, TypeVar

import msgspec

from leasehold.metastorage.etcd.protobuf import M

MOD: Final = 2
"""The target of a `Compare`: the revision of a key's last change, 0 for a key that is not there."""


class EtcdMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What all messages of etcd are. By itself it is a request without fields."""


class ResponseHeader(EtcdMessage, frozen=True, kw_only=True):
    """Who answered, and its newest revision."""

    cluster_id: Annotated[int, 1] = 0
    member_id: Annotated[int, 2] = 0
    revision: Annotated[int, 3] = 0


class EtcdAnswer(EtcdMessage, frozen=True, kw_only=True):
    """What all answers begin with. By itself it is the answer to a write or a deletion."""

    header: Annotated[ResponseHeader, 1] = ResponseHeader()


A = TypeVar("A", bound=EtcdAnswer)


class EtcdKeyValue(EtcdMessage, frozen=True, kw_only=True, gc=False):
    """A key, its value, and the revision of its last change."""

    key: Annotated[bytes, 1] = b""
    mod_revision: Annotated[int, 3] = 0
    value: Annotated[bytes, 5] = b""


class RangeRequest(EtcdMessage, frozen=True, kw_only=True):
    """Reads one key, or those below `range_end`; in the order of the keys."""

    key: Annotated[bytes, 1] = b""
    range_end: Annotated[bytes, 2] = b""
    limit: Annotated[int, 3] = 0
    keys_only: Annotated[bool, 8] = False


class RangeResponse(EtcdAnswer, frozen=True, kw_only=True):
    """Answers `RangeRequest`; `more` if the limit left keys out."""

    kvs: Annotated[tuple[EtcdKeyValue, ...], 2] = ()
    more: Annotated[bool, 3] = False


class PutRequest(EtcdMessage, frozen=True, kw_only=True):
    """Writes one key."""

    key: Annotated[bytes, 1] = b""
    value: Annotated[bytes, 2] = b""


class DeleteRangeRequest(EtcdMessage, frozen=True, kw_only=True):
    """Deletes one key, or those below `range_end`."""

    key: Annotated[bytes, 1] = b""
    range_end: Annotated[bytes, 2] = b""


class RequestOp(EtcdMessage, frozen=True, kw_only=True):
    """One operation of a transaction."""

    request_range: Annotated[RangeRequest | None, 1] = None
    request_put: Annotated[PutRequest | None, 2] = None
    request_delete_range: Annotated[DeleteRangeRequest | None, 3] = None


class Compare(EtcdMessage, frozen=True, kw_only=True):
    """Holds if the key's revision is `mod_revision`, with the target `MOD`."""

    target: Annotated[int, 2] = 0
    key: Annotated[bytes, 3] = b""
    mod_revision: Annotated[int | None, 6] = None


class TxnRequest(EtcdMessage, frozen=True, kw_only=True):
    """Does all of `success` at one revision if every compare holds."""

    compare: Annotated[tuple[Compare, ...], 1] = ()
    success: Annotated[tuple[RequestOp, ...], 2] = ()


class TxnResponse(EtcdAnswer, frozen=True, kw_only=True):
    """Answers `TxnRequest`. All its writes have the revision of the header."""

    succeeded: Annotated[bool, 2] = False


class CompactionRequest(EtcdMessage, frozen=True, kw_only=True):
    """Gives up what was overwritten or deleted up to `revision`."""

    revision: Annotated[int, 1] = 0


class WatchCreateRequest(EtcdMessage, frozen=True, kw_only=True):
    """Follows one key from `start_revision` on. With `fragment` a large answer comes in several."""

    key: Annotated[bytes, 1] = b""
    start_revision: Annotated[int, 3] = 0
    fragment: Annotated[bool, 8] = False


class WatchRequest(EtcdMessage, frozen=True, kw_only=True):
    """The client's side of a watch; it ends with its stream."""

    create_request: Annotated[WatchCreateRequest | None, 1] = None


class WatchResponse(EtcdAnswer, frozen=True, kw_only=True):
    """The server's side of a watch. After `fragment` the rest follows."""

    created: Annotated[bool, 3] = False
    canceled: Annotated[bool, 4] = False
    compact_revision: Annotated[int, 5] = 0
    cancel_reason: Annotated[str, 6] = ""
    fragment: Annotated[bool, 7] = False
    events: Annotated[tuple[bytes, ...], 11] = ()
    """Not decoded: a watch only wakes."""


class StatusResponse(EtcdAnswer, frozen=True, kw_only=True):
    """What a member tells about itself. The header's revision is what this member has applied, and may be old."""

    version: Annotated[str, 2] = ""
    db_size: Annotated[int, 3] = 0
    leader: Annotated[int, 4] = 0
    errors: Annotated[tuple[str, ...], 8] = ()
    """Among them the alarms of all members."""
    db_size_in_use: Annotated[int, 9] = 0
    is_learner: Annotated[bool, 10] = False
    db_size_quota: Annotated[int, 12] = 0
    """0 before 3.6; negative if there is no quota."""


class EtcdMember(EtcdMessage, frozen=True, kw_only=True):
    """One member of a cluster."""

    id: Annotated[int, 1] = 0
    name: Annotated[str, 2] = ""
    peer_urls: Annotated[tuple[str, ...], 3] = ()
    client_urls: Annotated[tuple[str, ...], 4] = ()
    is_learner: Annotated[bool, 5] = False


class MemberListResponse(EtcdAnswer, frozen=True, kw_only=True):
    """The members as far as the asked one knows them; the header has no revision."""

    members: Annotated[tuple[EtcdMember, ...], 2] = ()


class MemberAddRequest(EtcdMessage, frozen=True, kw_only=True):
    """Adds a member that will listen at `peer_urls` for the others."""

    peer_urls: Annotated[tuple[str, ...], 1] = ()


class MemberAddResponse(EtcdAnswer, frozen=True, kw_only=True):
    """Answers `MemberAddRequest`: the new member has an id, and no name until it starts."""

    member: Annotated[EtcdMember, 2] = EtcdMember()


class MemberRemoveRequest(EtcdMessage, frozen=True, kw_only=True):
    """Removes a member for good: nobody counts its votes any more, and its process ends."""

    id: Annotated[int, 1] = 0


class AuthenticateRequest(EtcdMessage, frozen=True, kw_only=True):
    """Asks for a token."""

    name: Annotated[str, 1] = ""
    password: Annotated[str, 2] = ""

    def __repr__(self) -> str:
        return f"AuthenticateRequest(name={self.name!r})"


class AuthenticateResponse(EtcdAnswer, frozen=True, kw_only=True):
    """Answers `AuthenticateRequest`."""

    token: Annotated[str, 2] = ""

    def __repr__(self) -> str:
        return "AuthenticateResponse()"


class EtcdMethod(msgspec.Struct, Generic[M, A], frozen=True):
    """One method: what it is asked with, and what it answers."""

    path: str
    request: type[M]
    answer: type[A]
    needs_leader: bool = True
    """A member that knows of no leader refuses it at once, before it has done anything."""


RANGE: Final = EtcdMethod("/etcdserverpb.KV/Range", RangeRequest, RangeResponse)
TXN: Final = EtcdMethod("/etcdserverpb.KV/Txn", TxnRequest, TxnResponse)
DELETE_RANGE: Final = EtcdMethod("/etcdserverpb.KV/DeleteRange", DeleteRangeRequest, EtcdAnswer)
COMPACT: Final = EtcdMethod("/etcdserverpb.KV/Compact", CompactionRequest, EtcdAnswer)
WATCH: Final = EtcdMethod("/etcdserverpb.Watch/Watch", WatchRequest, WatchResponse)
STATUS: Final = EtcdMethod("/etcdserverpb.Maintenance/Status", EtcdMessage, StatusResponse, needs_leader=False)
MEMBER_LIST: Final = EtcdMethod("/etcdserverpb.Cluster/MemberList", EtcdMessage, MemberListResponse, needs_leader=False)
MEMBER_ADD: Final = EtcdMethod("/etcdserverpb.Cluster/MemberAdd", MemberAddRequest, MemberAddResponse)
MEMBER_REMOVE: Final = EtcdMethod("/etcdserverpb.Cluster/MemberRemove", MemberRemoveRequest, EtcdAnswer)
AUTHENTICATE: Final = EtcdMethod("/etcdserverpb.Auth/Authenticate", AuthenticateRequest, AuthenticateResponse)
