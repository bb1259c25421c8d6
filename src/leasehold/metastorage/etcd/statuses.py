"""What a status of gRPC says about a request to one member.

etcd puts the reason into the text, and not always into the code. So the text decides where it is one of etcd's own.

| the request | error |
| --- | --- |
| did not happen, and never will, at any member | a definite one of ours |
| did not happen, and never will, here | `TryFailed`, may_happen=False |
| did not happen, since the token was not accepted | `TokenRefused` |
| may have happened, or may happen later | `TryFailed`, may_happen=True |

**A full store is the exception.** A member that finds the store full while it applies a transaction answers so although
the transaction happened. After `StoreFull` for a transaction, a read tells whether it happened. So `EtcdStore.swap`
reads.
"""

import re
from typing import Final

import grpc

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, LeaseholdError, Refused
from leasehold.metastorage.log.store import StoreDenied, StoreFull, StoreUnsuitable
from leasehold.metastorage.tries import TryFailed
from leasehold.wire.failures import plainly


class TokenRefused(Exception):
    """The member wants another token; the request did not happen."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


_REFUSED_TOKENS: Final = (
    "etcdserver: invalid auth token",
    "etcdserver: revision of auth store is old",
    "etcdserver: user name is empty",
)
_NOT_HERE: Final = (
    # A member answers these before it proposes anything.
    "etcdserver: no leader",
    "etcdserver: too many requests",
    "etcdserver: rpc not supported for learner",
)
_UNSUITABLE: Final = (
    ("failed parsing http/2", "what listens at {} is not etcd", "check the endpoints"),
    ("certificate has expired", "the certificate of etcd at {} has expired", "renew it"),
    (
        "certificate_verify_failed",
        "the certificate of etcd at {} is not one of the CA",
        "check meta_ca, and the certificate of that member",
    ),
    (
        "hostname verification check failed",
        "the certificate of etcd at {} is of another host",
        "name the member in meta as its certificate does",
    ),
    (
        "wrong_version_number",
        "what listens at {} does not speak TLS",
        "check the endpoints, or leave meta_ca out",
    ),
)
"""What gRPC says in lower case about a connection that will never stand, plain words for it, and what to do."""
_PLAIN: Final = (
    ("received message larger than max", "its answer is too large"),
    ("handshake read failed", "the connection broke at once: perhaps it does not speak TLS"),
    ("ssl|tls|tsi_|security handshaker", "TLS failed: check CA, certificate and key"),
    ("failed to connect.*socket closed", "the connection broke at once: perhaps it speaks TLS only"),
)
"""What gRPC says in lower case, and plain words for it."""


def failure(address: str, code: grpc.StatusCode, details: str) -> LeaseholdError | TryFailed | TokenRefused:
    """The error that a status of the member at `address` stands for."""
    if any(text in details for text in _REFUSED_TOKENS):
        return TokenRefused(_reason(code, details))
    if any(text in details for text in _NOT_HERE):
        return TryFailed(_reason(code, details), may_happen=False)
    return _definite(address, code, details) or TryFailed(_reason(code, details), may_happen=True)


def _definite(address: str, code: grpc.StatusCode, details: str) -> LeaseholdError | None:
    if "database space exceeded" in details:
        hint = "compact and defragment etcd or raise its quota, then run `etcdctl alarm disarm`"
        return StoreFull("etcd has reached its quota and takes no writes", hint=hint)
    if "etcdserver: permission denied" in details:
        hint = (
            "let the user read and write the keys of this cluster; etcd 3.4.42 to 3.4.45, 3.5.28 to 3.5.31 and "
            "3.6.9 to 3.6.11 tell their status only to a user with the role root"
        )
        return StoreDenied(f"etcd at {address} does not grant this to the user", hint=hint)
    if "etcdserver: authentication failed" in details:
        return StoreDenied(f"etcd at {address} does not accept the user and the password", hint="check both")
    if "etcdserver: mvcc: required revision has been compacted" in details:
        return Refused("etcd has given up that revision", code=ErrorCode.COMPACTED)
    if "etcdserver: corrupt cluster" in details:
        return StoreUnsuitable("the members of etcd differ in what they hold", hint="restore etcd from a snapshot")
    too_large = ("etcdserver: request is too large", "etcdserver: too many operations", "grpc: received message larger")
    if any(text in details for text in too_large):
        hint = "start etcd with the default --max-request-bytes and --max-txn-ops, or higher ones"
        return Refused(f"etcd at {address} takes no transaction of this size", code=ErrorCode.TOO_LARGE, hint=hint)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return StoreUnsuitable(f"what listens at {address} is not etcd", hint="check the endpoints")
    return _never_stands(address, details.lower())


def _never_stands(address: str, text: str) -> LeaseholdError | None:
    """For a connection that can't be made before somebody corrects a setting or the member."""
    if "failed to create security handshaker" in text:
        return BadSettings("the files of meta_ca, meta_cert and meta_key can't be used for TLS", hint="check all three")
    found = next((one for one in _UNSUITABLE if one[0] in text), None)
    return None if found is None else StoreUnsuitable(found[1].format(address), hint=found[2])


def _reason(code: grpc.StatusCode, details: str) -> str:
    """Plain words for why there is no answer."""
    if details.startswith("etcdserver: "):
        return f"etcd answers: {details.removeprefix('etcdserver: ')}"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return "no answer in time"
    text = details.lower()
    plain = next((plain for said, plain in _PLAIN if re.search(said, text)), None)
    return plain or plainly(details) or f"no answer ({code.name})"
