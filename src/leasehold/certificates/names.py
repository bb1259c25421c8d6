"""The names in certificates: of the authority, and of the node, coordinator or client that a certificate is for.

A certificate says who it is for in exactly one URI, `leasehold://<authority>/<role>/<name>`. Servers also carry two DNS
names, by which clients check them whatever their address: `<label>.<role>.<authority>.leasehold.internal`, which is
theirs alone, and `<role>.<authority>.leasehold.internal`, which all servers of that role have. There, `<authority>` is
the first half of the authority's id.

Two different names never share a URI or a DNS name of their own. A name that is not a DNS label in lower case gets a
label made of its hash. Names that already look like such a label are hashed, too.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final

from leasehold.errors import BadCertificate
from leasehold.ids import IDENTIFIER, NODE_NAME, is_hex_128
from leasehold.limits.statements import IDENTIFIER_CHARACTERS_MAX

DOMAIN: Final = "leasehold.internal"
_HASHED: Final = "x--"
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_URI: Final = re.compile(r"leasehold://([0-9a-f]{32})/([a-z]{1,16})/([A-Za-z0-9_.-]{1,128})")
_AUTHORITY_URI: Final = re.compile(r"leasehold://([0-9a-f]{32})/")


class CertificateRole(StrEnum):
    """What a certificate lets its owner be."""

    NODE = "node"
    COORDINATOR = "coordinator"
    CLIENT = "client"

    @property
    def is_server(self) -> bool:
        return self is not CertificateRole.CLIENT


@dataclass(frozen=True, kw_only=True, slots=True)
class CertificateName:
    """Who a certificate is for. Raises `BadCertificate` for a name that no process or user can have."""

    authority: str
    """128 bits in hex. A successor of an authority has the same."""
    role: CertificateRole
    name: str
    """As nodes are named for a node or coordinator, as users are named for a client."""

    def __post_init__(self) -> None:
        if not is_hex_128(self.authority):
            raise BadCertificate(
                f"{self.authority[:80]!r} is not the id of an authority", hint="it must be 32 hex digits in lower case"
            )
        if self.role is CertificateRole.CLIENT:
            is_name = len(self.name) <= IDENTIFIER_CHARACTERS_MAX and IDENTIFIER.fullmatch(self.name) is not None
            hint = f"use letters, digits and _, no digit first, at most {IDENTIFIER_CHARACTERS_MAX} characters"
        else:
            is_name = NODE_NAME.fullmatch(self.name) is not None
            hint = "use letters, digits, '.', '_' and '-', at most 63"
        if not is_name:
            raise BadCertificate(f"{self.name[:80]!r} is not the name of a {self.role}", hint=hint)

    def __str__(self) -> str:
        return f"{self.role} {self.name}"

    @property
    def uri(self) -> str:
        return f"leasehold://{self.authority}/{self.role}/{self.name}"

    @property
    def label(self) -> str:
        """The name as a DNS label."""
        if _LABEL.fullmatch(self.name) is not None and not self.name.startswith(_HASHED):
            return self.name
        return _HASHED + sha256(self.name.encode()).hexdigest()[:32]

    @property
    def dns_names(self) -> tuple[str, ...]:
        """The DNS names of a server: its own, then that of its role. A client has none."""
        if not self.role.is_server:
            return ()
        of_role = role_dns_name(self.authority, self.role)
        return f"{self.label}.{of_role}", of_role


def role_dns_name(authority: str, role: CertificateRole) -> str:
    """The DNS name of all servers of a role, for who knows an address but no name."""
    return f"{role}.{authority_domain(authority)}"


def authority_domain(authority: str) -> str:
    """All DNS names that an authority may sign end with this."""
    return f"{authority[:16]}.{DOMAIN}"


def parse_uri(uri: str) -> CertificateName:
    """The name that a certificate's URI says. Raises `BadCertificate`."""
    found = _URI.fullmatch(uri)
    if found is None or found[2] not in set(CertificateRole):
        raise BadCertificate(
            f"{uri[:200]!r} is not the name of a node, a coordinator or a client",
            hint="the URI must be leasehold://<32 hex digits>/<node, coordinator or client>/<name>",
        )
    return CertificateName(authority=found[1], role=CertificateRole(found[2]), name=found[3])


def authority_uri(authority: str) -> str:
    """The URI in the certificate of an authority."""
    return f"leasehold://{authority}/"


def parse_authority_uri(uri: str) -> str | None:
    """The id of the authority, or None if the URI is not that of one."""
    found = _AUTHORITY_URI.fullmatch(uri)
    return None if found is None else found[1]
