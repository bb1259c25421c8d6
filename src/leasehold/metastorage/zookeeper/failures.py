"""Errors of kazoo and of sockets, as what they say about a request.

| the request | error |
| --- | --- |
| did not happen, and never will, at any member | a definite one of ours |
| did not happen, and never will, here | `TryFailed`, may_happen=False |
| may have happened, or may happen later | `TryFailed`, may_happen=True |

A member that answers a write with an error has had it ordered and not done. All else is unknown.
"""

import contextlib
import socket
import ssl
from collections.abc import Generator

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    NoAuthError,
    QuotaExceededError,
    SessionExpiredError,
    UnimplementedError,
)

from leasehold.errors import LeaseholdError
from leasehold.metastorage.log.store import StoreDenied, StoreFull, StoreUnsuitable
from leasehold.metastorage.tries import TryFailed
from leasehold.wire.failures import plainly


def failure(address: str, error: BaseException) -> LeaseholdError | TryFailed:
    """The error that one of kazoo stands for, of a request that was sent to the member at `address`."""
    match error:
        case NoAuthError():
            hint = "set meta_user and meta_password_file to those with which the log was made"
            return StoreDenied(f"ZooKeeper at {address} does not grant this to the user", hint=hint)
        case AuthFailedError() | InvalidACLError():
            hint = "let ZooKeeper take the scheme `digest`"
            return StoreDenied(f"ZooKeeper at {address} takes no user with a password", hint=hint)
        case QuotaExceededError():
            hint = "raise the quota of the node of this cluster"
            return StoreFull(f"ZooKeeper at {address} has reached a quota and takes no writes", hint=hint)
        case UnimplementedError():
            return StoreUnsuitable(f"ZooKeeper at {address} does not know a request", hint="upgrade ZooKeeper")
        case ConnectionLoss() | ConnectionClosedError() | SessionExpiredError():
            return TryFailed("the connection broke", may_happen=True)
        case _:
            return TryFailed(f"ZooKeeper answers: {type(error).__name__}", may_happen=True)


@contextlib.contextmanager
def connecting(address: str) -> Generator[None]:
    """Around a connection that is made to a member: its errors become `TryFailed`, or `StoreUnsuitable` where no
    connection will ever stand."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        text = f"the certificate of ZooKeeper at {address} is not accepted: {error.verify_message}"
        raise StoreUnsuitable(text, hint="check meta_ca, and the certificate of that member") from error
    except (OSError, EOFError, ValueError) as error:
        raise TryFailed(why_not_connected(error), may_happen=False) from error


def why_not_connected(error: BaseException) -> str:
    """Plain words for it."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not accepted: {error.verify_message}"
        case ssl.SSLError():
            return "TLS failed: check CA, certificate and key"
        case ConnectionRefusedError():
            return "nothing listens there (connection refused)"
        case TimeoutError():
            return "the connection could not be made in time"
        case socket.gaierror():
            return "its name can't be resolved"
        case OSError(strerror=str() as words):
            return plainly(words) or words
        case _:
            return plainly(str(error)) or "the connection broke"
