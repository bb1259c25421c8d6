"""Errors as they travel: `LeaseholdError` to `core.words.messages.Failure` and back."""

from collections.abc import Iterator
from typing import Final

from leasehold import errors
from leasehold.core.words.messages import Failure
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, Indefinite, LeaseholdError, NotLeader, Refused
from leasehold.ids import Term
from leasehold.limits.messages import FAILURE_CHARACTERS_MAX


def _classes(root: type[LeaseholdError]) -> Iterator[type[LeaseholdError]]:
    yield root
    for child in vars(errors).values():
        if isinstance(child, type) and issubclass(child, LeaseholdError) and root in child.__bases__:
            yield from _classes(child)


# Parents come before their children, and a child that keeps its parent's code replaces it.
_BY_CODE: Final[dict[ErrorCode, type[LeaseholdError]]] = {
    one.default_code: one for root in (Definite, Indefinite) for one in _classes(root)
}


def to_failure(error: LeaseholdError) -> Failure:
    """The message that carries `error`, with text and hint cut to FAILURE_CHARACTERS_MAX characters each. An error that
    is neither definite nor indefinite counts as indefinite: nothing proves that it did not happen."""
    return Failure(
        code=error.code[:FAILURE_CHARACTERS_MAX],
        text=error.text[:FAILURE_CHARACTERS_MAX],
        hint=error.hint[:FAILURE_CHARACTERS_MAX],
        definite=isinstance(error, Definite),
        leader=error.leader[:FAILURE_CHARACTERS_MAX] if isinstance(error, NotLeader) else "",
        term=Term(error.term if isinstance(error, NotLeader) else 0),
        cause=(error.cause or "") if isinstance(error, NotLeader) else "",
    )


def from_failure(failure: Failure) -> LeaseholdError:
    """The error that `failure` describes: of its own class where the code is known and agrees with the flag `definite`,
    else a plain `Refused` or `Indefinite` with that code. A hostile sender does not cut its texts, so they
    are cut here."""
    code, text, hint = (
        ErrorCode(failure.code[:FAILURE_CHARACTERS_MAX]),
        failure.text[:FAILURE_CHARACTERS_MAX],
        failure.hint[:FAILURE_CHARACTERS_MAX],
    )
    kind = _BY_CODE.get(code)
    if kind is None or not issubclass(kind, Definite if failure.definite else Indefinite):
        kind = Refused if failure.definite else Indefinite
    if kind is NotLeader:
        cause = ErrorCode(failure.cause[:FAILURE_CHARACTERS_MAX]) if failure.cause else None
        leader = failure.leader[:FAILURE_CHARACTERS_MAX]
        return NotLeader(text, code=code, hint=hint, leader=leader, term=failure.term, cause=cause)
    return kind(text, code=code, hint=hint)


TLS_FAILED: Final = "tls handshake failed"
_REFUSED_LATE: Final = ("socket closed", "connection reset", "broken pipe")
"""A server looks at a client's certificate when the client takes the connection for made (RFC 8446, 4.4.2)."""
_PLAIN: Final = (
    ("too many calls", "it rejected the call, because too many others wait"),
    ("does not take its answers", "it rejected the call, because this host takes no answers"),
    ("connection refused", "nothing listens there (connection refused)"),
    ("no route to host", "no route leads to that host"),
    ("network is unreachable", "no route leads to that network"),
    ("name resolution", "its name can't be resolved"),
    ("dns resolution", "its name can't be resolved"),
    ("ping timeout", "the process there does not answer"),
    ("keepalive", "the process there does not answer"),
    ("timed out", "the connection could not be made in time"),
    ("timeout", "the connection could not be made in time"),
    ("deadline", "no answer in time"),
    ("certificate has expired", "its certificate has expired"),
    ("certificate_verify_failed", "its certificate is not of an authority that is trusted here"),
    ("hostname verification", "it shows the certificate of another process"),
    ("is not in peer certificate", "it shows the certificate of another process"),
    ("wrong_version_number", "it does not use TLS"),
    (TLS_FAILED, "TLS could not be agreed on with it"),
    (": socket closed", "it closes connections at once, as a process with TLS does when others do without"),
    ("connection reset", "the connection broke"),
    ("broken pipe", "the connection broke"),
    ("socket closed", "the connection broke"),
    ("goaway", "the connection broke"),
    ("connection aborted", "the connection broke"),
    ("cancelled", "the call was cancelled"),
    ("failed to connect", "the connection failed"),
)
"""What gRPC or the server says when a call has no answer, and plain words for it."""


def may_be_of_tls(details: str) -> bool:
    """Whether a certificate may be why a call had no answer."""
    text = details.lower()
    return TLS_FAILED in text or any(said in text for said in _REFUSED_LATE)


def plainly(details: str) -> str | None:
    """Why a call had no answer, without gRPC's debug text; None for an unknown reason."""
    text = details.lower()
    return next((plain for said, plain in _PLAIN if said in text), None)
