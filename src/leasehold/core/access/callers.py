"""Whom the transport has authenticated, and what such a caller may ask.

Over TLS each process shows a certificate that says who it is. It comes on top of the proofs, tokens and sessions, which
say which cluster, which directory and which process a request is of.

| what is asked | who may ask |
| --- | --- |
| an id for a node, an incarnation, a lease, the catalog, the end of a process | this node |
| a segment's bytes, or taking them | this node |
| the report of a coordinator | a coordinator |
| a cluster id for a new meta storage | a coordinator or a client with a certificate, or whoever is on this machine |
| anything else, where there are users | whoever logs in |
| anything else, where there are none | whoever has a certificate, or is on this machine |

A certificate counts no more once it is revoked. Of a node that was removed, those that were issued until then count no
more. A catalog tells both, so each process refuses them as soon as it has applied the revision.
"""

from enum import StrEnum
from typing import Final

import msgspec

from leasehold.core.access.certified_names import is_too_old
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words import messages
from leasehold.error_codes import ErrorCode
from leasehold.errors import Forbidden
from leasehold.ids import NodeId, Token


class CallerRole(StrEnum):
    """What a caller is, by its certificate or for lack of one."""

    NODE = "node"
    COORDINATOR = "coordinator"
    CLIENT = "client"
    NEIGHBOUR = "neighbour"
    """Without a certificate, over loopback."""
    STRANGER = "stranger"
    """Without a certificate, from anywhere."""


class Caller(msgspec.Struct, frozen=True):
    """A caller over TLS; `name` is that of the certificate, empty without one. Without TLS there is no `Caller`."""

    role: CallerRole
    name: str = ""
    serial: str = ""
    """Of the certificate, as in its `RevokedCertificateRecord`."""
    begins_s: int = 0
    """Since when the certificate is valid, in seconds since 1970 UTC."""
    ends_s: int = 0
    """Until when."""

    def __str__(self) -> str:
        return f"{self.role} {self.name}" if self.name else f"a {self.role}"

    @property
    def is_member(self) -> bool:
        """Whether it may ask what the processes of a cluster ask each other."""
        return self.role in _MEMBERS

    def is_node(self, name: str) -> bool:
        return self.role is CallerRole.NODE and self.name == name


_MEMBERS: Final = frozenset({CallerRole.NODE, CallerRole.COORDINATOR})


def check_caller(request: messages.Message, caller: Caller | None, catalog: Catalog) -> None:
    """Checks a request to a coordinator, or a ticket. Raises `Forbidden`: WRONG_DOOR, NOT_THIS_NODE, OPEN_CLUSTER,
    CERTIFICATE_REVOKED. `catalog` is the newest that is known here."""
    if caller is None:
        return
    check_not_revoked(caller, catalog)
    if not _is_told_of_removal(request, catalog):
        _check_not_removed(caller, catalog)
    match request:
        case messages.Allocate(name=name) | messages.Join(name=name):
            _need_member(caller)
            if not caller.is_node(name):
                raise _not_this(caller, f"node {name[:80]}")
            of_it = request.node if isinstance(request, messages.Join) else _node_with(request.token, catalog)
            if of_it is not None:
                check_sender(of_it, caller, catalog)
        case (
            messages.AskIncarnation(node=node)
            | messages.OpenSession(node=node)
            | messages.AskSnapshot(node=node)
            | messages.ReportProcessEnd(node=node)
            | messages.AskCompaction(node=node)
            | messages.EndCompaction(node=node)
            | messages.FetchTicket(node=node)
            | messages.ForwardTicket(sender=node)
        ):
            check_sender(node, caller, catalog)
        case messages.ReportCoordinator():
            _need_member(caller)
            if caller.role is not CallerRole.COORDINATOR:
                raise _not_this(caller, "a coordinator")
        case messages.WhoAreYou() | messages.ChallengeCoordinator():
            pass  # the answers say nothing that a certificate does not say
        case _:
            check_person(caller, catalog)


def check_person(caller: Caller | None, catalog: Catalog) -> None:
    """Raises `Forbidden` (OPEN_CLUSTER) for a stranger where nobody could tell it from a user."""
    if caller is not None and not catalog.users:
        _check_no_stranger(caller)


def check_founder(caller: Caller | None) -> None:
    """Of the request for a cluster in a new meta storage. Raises `Forbidden` (OPEN_CLUSTER, NOT_THIS_NODE)."""
    _check_no_stranger(caller)
    if caller is not None and caller.role is CallerRole.NODE:
        raise _not_this(caller, "a coordinator or a client")


def _check_no_stranger(caller: Caller | None) -> None:
    if caller is not None and caller.role is CallerRole.STRANGER:
        raise Forbidden(
            "this cluster has no users, so it serves only callers with a certificate",
            code=ErrorCode.OPEN_CLUSTER,
            hint="set LEASEHOLD_TLS to the folder of a certificate (`leasehold ca issue --client NAME` makes one), and"
            " create a user: with users, a password is enough",
        )


def _node_with(token: Token, catalog: Catalog) -> NodeId | None:
    """The node that was allocated for a token, if any was."""
    token_hash = hash_secret(token)
    return next((one.id for one in catalog.nodes.values() if one.token_hash == token_hash), None)


def check_sender(node: NodeId, caller: Caller | None, catalog: Catalog) -> None:
    """Raises `Forbidden` (WRONG_DOOR, NOT_THIS_NODE) unless the caller is the node that the request says it is of."""
    if caller is None:
        return
    _need_member(caller)
    record = catalog.nodes.get(node)
    # One that is not known is refused for that, and by its token or session.
    if record is not None and not caller.is_node(record.name):
        raise _not_this(caller, f"node {record.name}")


def check_counts(caller: Caller | None, catalog: Catalog) -> None:
    """Raises `Forbidden` (CERTIFICATE_REVOKED) if the certificate of a caller that was let in counts no more."""
    if caller is not None:
        check_not_revoked(caller, catalog)
        _check_not_removed(caller, catalog)


def check_not_revoked(caller: Caller, catalog: Catalog) -> None:
    """Raises `Forbidden` (CERTIFICATE_REVOKED)."""
    if caller.serial in catalog.revoked_certificates:
        raise Forbidden(
            f"the certificate {caller.serial} of {caller} is revoked",
            code=ErrorCode.CERTIFICATE_REVOKED,
            hint="make a new one with `leasehold ca issue`; ALTER CLUSTER UNREVOKE CERTIFICATE"
            f" '{caller.serial}' takes it back",
        )


def _check_not_removed(caller: Caller, catalog: Catalog) -> None:
    if caller.role is CallerRole.NODE and is_too_old(caller.name, caller.begins_s, catalog):
        raise Forbidden(
            f"node {caller.name} was removed, and its certificate {caller.serial} was issued before that",
            code=ErrorCode.CERTIFICATE_REVOKED,
            hint="make a new certificate with `leasehold ca renew` or `leasehold ca issue`",
        )


def _is_told_of_removal(request: messages.Message, catalog: Catalog) -> bool:
    """Whether the sender is a removed node, which is refused as such, or asks only what a certificate says."""
    match request:
        case messages.WhoAreYou() | messages.ChallengeCoordinator():
            return True
        case (
            messages.Join(node=node)
            | messages.AskIncarnation(node=node)
            | messages.OpenSession(node=node)
            | messages.AskSnapshot(node=node)
            | messages.ReportProcessEnd(node=node)
            | messages.AskCompaction(node=node)
            | messages.EndCompaction(node=node)
        ):
            record = catalog.nodes.get(node)
            return record is not None and record.removed
        case _:
            return False


def _need_member(caller: Caller) -> None:
    if not caller.is_member:
        raise Forbidden(
            f"only processes of the cluster may ask this; the caller is {caller}",
            code=ErrorCode.WRONG_DOOR,
            hint="give the process its own certificate with --tls: `leasehold ca issue` makes it",
        )


def _not_this(caller: Caller, claimed: str) -> Forbidden:
    return Forbidden(
        f"the request is of {claimed}, and the certificate of its sender says {caller}",
        code=ErrorCode.NOT_THIS_NODE,
        hint=f"start it with --tls and the certificate of {claimed}",
    )
