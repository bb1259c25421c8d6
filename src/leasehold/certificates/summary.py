"""What is in a file, a bundle or an authority, for people to look at. It shows also what the checks refuse."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from leasehold.certificates.certificate import (
    authority_of,
    dns_names_of,
    extension,
    fingerprint,
    serial_text,
    split_pem,
    uris_of,
)
from leasehold.certificates.checks import load_own
from leasehold.certificates.files import CA, CA_KEY, IDENTITY, ISSUED, read_any_file
from leasehold.certificates.names import parse_uri
from leasehold.errors import BadCertificate
from leasehold.limits.certificates import CERTIFICATES_SHOWN_MAX

_AUTHORITY: Final = "authority"


@dataclass(frozen=True, kw_only=True, slots=True)
class CertificateFacts:
    """One certificate in a file."""

    file: Path
    place: str
    """What it is for there: own, intermediate, trusted, authority or issued; empty in a file that is shown alone."""
    role: str
    """Also `authority`; empty for a certificate that names nobody."""
    name: str
    """Of a node, a coordinator or a client; else the subject of the certificate."""
    authority: str | None
    serial: str
    not_before: datetime
    not_after: datetime
    sha256: str
    """Its fingerprint, in hex."""
    issuer: str
    dns_names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CertificateSummary:
    """What `leasehold ca show` shows."""

    certificates: tuple[CertificateFacts, ...]
    left_out: int = 0
    """Issued certificates that are not shown: the oldest."""
    problem: BadCertificate | None = None
    """Why a bundle can't be used."""


def summarise(path: Path, now: datetime) -> CertificateSummary:
    """What a file, a bundle or an authority holds. Raises `BadCertificate` where that can't be read."""
    if not path.is_dir():
        return CertificateSummary(certificates=_facts(path))
    if not (path / CA_KEY).exists():
        problem = None
        try:
            load_own(path, now)
        except BadCertificate as error:
            problem = error
        found = (*_facts(path / IDENTITY, "own", "intermediate"), *_facts(path / CA, "trusted"))
        return CertificateSummary(certificates=found, problem=problem)
    issued = sorted((path / ISSUED).glob("*.pem"), key=lambda one: (one.stat().st_mtime_ns, one.name), reverse=True)
    found = _facts(path / CA, _AUTHORITY)
    for one in issued[:CERTIFICATES_SHOWN_MAX]:
        found += _facts(one, "issued", "intermediate")
    return CertificateSummary(certificates=found, left_out=len(issued[CERTIFICATES_SHOWN_MAX:]))


def _facts(path: Path, place: str = "", later: str | None = None) -> tuple[CertificateFacts, ...]:
    """Those in a file; all but the first are of the place `later` if it is given."""
    _, certificates = split_pem(path, read_any_file(path))
    if not certificates:
        raise BadCertificate(f"{path} holds no certificate", hint="name a file with certificates in PEM format")
    places = [place, *[place if later is None else later] * (len(certificates) - 1)]
    return tuple(_fact(path, where, one) for where, one in zip(places, certificates, strict=True))


def _fact(path: Path, place: str, certificate: x509.Certificate) -> CertificateFacts:
    role, name, authority = _who(certificate)
    return CertificateFacts(
        file=path,
        place=place,
        role=role,
        name=name,
        authority=authority,
        serial=serial_text(certificate),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        sha256=fingerprint(certificate),
        issuer=certificate.issuer.rfc4514_string(),
        dns_names=tuple(dns_names_of(certificate)),
    )


def _who(certificate: x509.Certificate) -> tuple[str, str, str | None]:
    """Role, name and authority."""
    subject = certificate.subject.rfc4514_string()
    basic = extension(certificate, x509.BasicConstraints)
    if basic is not None and basic.ca:
        return _AUTHORITY, subject, authority_of(certificate)
    uris = uris_of(certificate)
    try:
        found = parse_uri(uris[0] if len(uris) == 1 else "")
    except BadCertificate:
        return "", subject, None
    return str(found.role), found.name, found.authority
