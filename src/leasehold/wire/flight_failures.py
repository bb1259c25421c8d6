"""Errors of a node's Flight server as its clients get them: pyarrow's words for a failed handler, with a `Failure`."""

from typing import Final

import grpc

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import Failure
from leasehold.errors import LeaseholdError
from leasehold.limits.flight import FLIGHT_FAILURE_BYTES_MAX
from leasehold.wire.failures import to_failure
from leasehold.wire.http2.thread_calls import ThreadCall

_ARROW_STATUS: Final = ((b"x-arrow-status", b"5"), (b"x-arrow-status-detail-bin", b"Failed"))
"""The words of pyarrow's server for a handler that failed."""


def told(error: LeaseholdError) -> Failure:
    """The message that tells a peer of `error`; its texts are cut to FLIGHT_FAILURE_BYTES_MAX bytes each."""
    whole = to_failure(error)
    return Failure(code=_cut(whole.code), text=_cut(whole.text), hint=_cut(whole.hint), definite=whole.definite)


def _cut(text: str) -> str:
    return text.encode(errors="replace")[:FLIGHT_FAILURE_BYTES_MAX].decode(errors="ignore")


def fail(call: ThreadCall, failure: Failure) -> None:
    extra = ((b"x-arrow-status-message-bin", failure.code.encode()), (b"grpc-status-details-bin", encode(failure)))
    call.ends_with(grpc.StatusCode.UNKNOWN, failure.code, (*_ARROW_STATUS, *extra))
