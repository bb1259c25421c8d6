"""Errors of a node's Flight server as its clients get them: pyarrow's words for a failed handler, with a `Failure`."""

from typing import Final

import grpc

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import Failure
from leasehold.errors import LeaseholdError
from leasehold.limits.flight import FLIGHT_FAILURE_BYTES_MAX
from leasehold.wire.failures import to_failure

_ARROW_STATUS: Final = (("x-arrow-status", "5"), ("x-arrow-status-detail-bin", b"Failed"))
"""The words of pyarrow's server for a handler that failed."""


def told(error: LeaseholdError) -> Failure:
    """The message that tells a peer of `error`; its texts are cut to FLIGHT_FAILURE_BYTES_MAX bytes each."""
    whole = to_failure(error)
    return Failure(code=_cut(whole.code), text=_cut(whole.text), hint=_cut(whole.hint), definite=whole.definite)


def _cut(text: str) -> str:
    return text.encode(errors="replace")[:FLIGHT_FAILURE_BYTES_MAX].decode(errors="ignore")


def fail(context: grpc.ServicerContext, failure: Failure) -> None:
    extra = (("x-arrow-status-message-bin", failure.code.encode()), ("grpc-status-details-bin", encode(failure)))
    context.set_trailing_metadata((*_ARROW_STATUS, *extra))
    context.set_code(grpc.StatusCode.UNKNOWN)
    context.set_details(failure.code)
