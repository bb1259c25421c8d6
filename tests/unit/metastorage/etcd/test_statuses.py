"""What is known of a request after each status that etcd and gRPC give it."""

import grpc
import pytest

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, LeaseholdError, Refused
from leasehold.metastorage.etcd.statuses import TokenRefused, failure
from leasehold.metastorage.log.store import StoreDenied, StoreFull, StoreUnsuitable
from leasehold.metastorage.tries import TryFailed

Code = grpc.StatusCode


@pytest.mark.parametrize(
    ("code", "details", "kind", "error_code"),
    [
        (Code.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", StoreFull, ErrorCode.STORE_FULL),
        (Code.PERMISSION_DENIED, "etcdserver: permission denied", StoreDenied, ErrorCode.STORE_DENIED),
        (
            Code.INVALID_ARGUMENT,
            "etcdserver: authentication failed, invalid user ID or password",
            StoreDenied,
            ErrorCode.STORE_DENIED,
        ),
        (Code.INVALID_ARGUMENT, "etcdserver: request is too large", Refused, ErrorCode.TOO_LARGE),
        (Code.INVALID_ARGUMENT, "etcdserver: too many operations in txn request", Refused, ErrorCode.TOO_LARGE),
        (
            Code.RESOURCE_EXHAUSTED,
            "grpc: received message larger than max (2097272 vs. 2097152)",
            Refused,
            ErrorCode.TOO_LARGE,
        ),
        (
            Code.OUT_OF_RANGE,
            "etcdserver: mvcc: required revision has been compacted",
            Refused,
            ErrorCode.COMPACTED,
        ),
        (Code.DATA_LOSS, "etcdserver: corrupt cluster", StoreUnsuitable, ErrorCode.STORE_UNSUITABLE),
        (Code.UNIMPLEMENTED, "unknown service etcdserverpb.KV", StoreUnsuitable, ErrorCode.STORE_UNSUITABLE),
    ],
)
def test_what_surely_never_happens(code: Code, details: str, kind: type, error_code: ErrorCode) -> None:
    found = failure("h1:2379", code, details)
    assert isinstance(found, LeaseholdError)
    assert type(found) is kind
    assert found.code is error_code


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ("Tls handshake failed: CERTIFICATE_VERIFY_FAILED: certificate has expired", "has expired"),
        ("Tls handshake failed: CERTIFICATE_VERIFY_FAILED: unable to get local issuer certificate", "is not one of"),
        ("Tls handshake failed: Hostname Verification Check failed.", "is of another host"),
        ("Tls handshake failed: SSL_ERROR_SSL: WRONG_VERSION_NUMBER", "does not speak TLS"),
        ("Failed parsing HTTP/2 (Expected SETTINGS frame as the first frame, got frame type 80)", "is not etcd"),
    ],
)
def test_a_connection_that_will_never_stand(details: str, words: str) -> None:
    found = failure("h1:2379", Code.UNAVAILABLE, f"failed to connect to all addresses; last error: {details}")
    assert isinstance(found, StoreUnsuitable)
    assert words in found.text
    assert "h1:2379" in found.text
    assert found.hint


def test_files_that_are_of_no_use_for_TLS() -> None:
    details = "failed to connect to all addresses; last error: Failed to create security handshaker."
    found = failure("h1:2379", Code.UNAVAILABLE, details)
    assert isinstance(found, BadSettings)
    assert "meta_ca" in found.text


@pytest.mark.parametrize(
    ("code", "details"),
    [
        (Code.UNAUTHENTICATED, "etcdserver: invalid auth token"),
        (Code.INVALID_ARGUMENT, "etcdserver: revision of auth store is old"),
        (Code.INVALID_ARGUMENT, "etcdserver: user name is empty"),
    ],
)
def test_a_refused_token(code: Code, details: str) -> None:
    assert isinstance(failure("h1:2379", code, details), TokenRefused)


@pytest.mark.parametrize(
    ("code", "details", "reason"),
    [
        (Code.UNAVAILABLE, "etcdserver: no leader", "etcd answers: no leader"),
        (Code.RESOURCE_EXHAUSTED, "etcdserver: too many requests", "etcd answers: too many requests"),
        (Code.UNKNOWN, "etcdserver: too many requests", "etcd answers: too many requests"),
        (
            Code.FAILED_PRECONDITION,
            "etcdserver: rpc not supported for learner",
            "etcd answers: rpc not supported for learner",
        ),
    ],
)
def test_what_did_not_happen_at_this_member(code: Code, details: str, reason: str) -> None:
    found = failure("h1:2379", code, details)
    assert isinstance(found, TryFailed)
    assert (found.may_happen, found.reason) == (False, reason)


@pytest.mark.parametrize(
    ("code", "details", "reason"),
    [
        (Code.UNAVAILABLE, "etcdserver: leader changed", "etcd answers: leader changed"),
        (Code.UNAVAILABLE, "etcdserver: request timed out", "etcd answers: request timed out"),
        (
            Code.UNAVAILABLE,
            "etcdserver: request timed out, possibly due to previous leader failure",
            "etcd answers: request timed out, possibly due to previous leader failure",
        ),
        (Code.UNAVAILABLE, "etcdserver: server stopped", "etcd answers: server stopped"),
        (Code.DEADLINE_EXCEEDED, "Deadline Exceeded", "no answer in time"),
        (Code.DEADLINE_EXCEEDED, "context deadline exceeded", "no answer in time"),
        (Code.UNAVAILABLE, "Socket closed", "the connection broke"),
        (
            Code.UNAVAILABLE,
            "failed to connect to all addresses; last error: ipv4:127.0.0.1:1: Failed to connect (Connection refused)",
            "nothing listens there (connection refused)",
        ),
        (Code.INTERNAL, "", "no answer (INTERNAL)"),
        (Code.RESOURCE_EXHAUSTED, "CLIENT: Received message larger than max (2 vs. 1)", "its answer is too large"),
    ],
)
def test_what_may_have_happened(code: Code, details: str, reason: str) -> None:
    found = failure("h1:2379", code, details)
    assert isinstance(found, TryFailed)
    assert (found.may_happen, found.reason) == (True, reason)
