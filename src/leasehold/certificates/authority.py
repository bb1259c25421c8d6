"""The certificate authority of a cluster: it signs certificates for nodes, coordinators and clients.

It may sign only DNS names below its own domain, and no further authorities (name constraints, `pathlen:0`). A successor
has its own key and keeps the id, so all names stay as they are. A certificate is renewed only if this authority or one
before it signed the old one. Otherwise whoever hands in a bundle could choose the name.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from leasehold.certificates.certificate import (
    authority_of,
    check_times,
    name_of,
    pem,
    read_certificates,
    read_key,
    refused,
    split_pem,
)
from leasehold.certificates.checks import OwnCertificate, check_own, key_pem, split_identity
from leasehold.certificates.files import (
    CA,
    CA_KEY,
    IDENTITY,
    ISSUED,
    PREDECESSORS,
    check_directory,
    check_folder,
    check_is_new,
    create_directory,
    read_key_file,
    read_public_file,
    write_file,
)
from leasehold.certificates.names import CertificateName, CertificateRole, authority_domain, authority_uri
from leasehold.errors import BadCertificate, NotFound, typed
from leasehold.ids import read_serial
from leasehold.limits.certificates import AUTHORITY_DAYS, CERTIFICATE_SKEW_NS
from leasehold.limits.units import SECOND_NS

_SKEW: Final = timedelta(seconds=CERTIFICATE_SKEW_NS / SECOND_NS)
_COMMON_NAME_MAX: Final = 64
"""Of X.509."""
_NOT_BY_US: Final = "issue a new one with `leasehold ca issue`, or renew it where it was issued"


@dataclass(frozen=True, kw_only=True)
class Authority:
    """An authority whose files were read."""

    directory: Path
    id: str
    certificate: x509.Certificate
    predecessors: tuple[x509.Certificate, ...]
    key: ec.EllipticCurvePrivateKey = field(repr=False)


def create_authority(directory: Path, authority: str, now: datetime, *, successor_of: Path | None = None) -> Authority:
    """Makes an authority with the id `authority`, or with the id of the one that it succeeds.

    Raises `BadCertificate`, `AlreadyExists`, `Refused`.
    """
    old = None if successor_of is None else open_authority(successor_of)
    owner = authority if old is None else old.id
    before = () if old is None else (old.certificate, *old.predecessors)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _sign_authority(owner, key, now)
    files = {CA: pem(certificate), CA_KEY: key_pem(key)}
    if before:
        files[PREDECESSORS] = b"".join(map(pem, before))
    create_directory(directory, files, [ISSUED])
    return Authority(directory=directory, id=owner, certificate=certificate, predecessors=before, key=key)


def open_authority(directory: Path) -> Authority:
    """Raises `BadCertificate`."""
    check_directory(directory)
    path = directory / CA
    [certificate, *others] = read_certificates(path, read_public_file(path))
    owner = authority_of(certificate)
    if owner is None or others:
        raise BadCertificate(
            f"{path} is not the certificate of an authority of a cluster",
            hint="name the directory that `leasehold ca init` made",
        )
    key_path = directory / CA_KEY
    keys, _ = split_pem(key_path, read_key_file(key_path))
    key = read_key(key_path, keys[0]) if len(keys) == 1 else None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise refused(key_path, "key", f"it is not the key of {path}", hint="restore both files from one backup")
    before = directory / PREDECESSORS
    predecessors = read_certificates(before, read_public_file(before)) if before.exists() else []
    return Authority(directory=directory, id=owner, certificate=certificate, predecessors=tuple(predecessors), key=key)


def issue(
    authority: Authority, role: CertificateRole, name: str, days: int, bundle: Path, now: datetime
) -> OwnCertificate:
    """Makes a bundle, whose certificate ends after so many `days` or with the authority.

    Raises `BadCertificate`, `AlreadyExists`, `Refused`.
    """
    whose = CertificateName(authority=authority.id, role=role, name=name)
    check_is_new(bundle)
    identity, roots = _sign_identity(authority, whose, days, now), pem(authority.certificate)
    own = check_own(bundle, identity, roots, now)
    _record(authority, own)
    create_directory(bundle, {IDENTITY: identity, CA: roots})
    return own


def renew(authority: Authority, bundle: Path, days: int, now: datetime) -> OwnCertificate:
    """Gives a bundle a new key, and a new certificate of the same name, in one step; nothing changes if it raises.

    Raises `BadCertificate`, `Refused`.
    """
    check_directory(bundle)
    path = bundle / IDENTITY
    _, chain = split_identity(path, read_key_file(path))
    whose = name_of(path, chain[0])
    if not any(_is_signed_by(chain[0], one) for one in (authority.certificate, *authority.predecessors)):
        what = f"the certificate of {whose} was not signed by {authority.directory / CA} or an authority before it"
        raise refused(path, "issuer", what, hint=_NOT_BY_US)
    identity = _sign_identity(authority, whose, days, now)
    own = check_own(bundle, identity, read_public_file(bundle / CA), now)
    _record(authority, own)
    write_file(path, identity, replaces=True)
    return own


def find_issued(authority: Authority, text: str) -> tuple[CertificateName, x509.Certificate, str]:
    """The certificate with a serial number that this authority has issued, and that number as clusters store it.

    Raises `NotFound`, `BadCertificate`.
    """
    serial = read_serial(text)
    path = authority.directory / ISSUED / f"{serial}.pem"
    if serial is None or not path.exists():
        raise NotFound(
            f"{authority.directory} has issued no certificate with the serial number {text[:80]!r}",
            hint=f"`leasehold ca show {typed(authority.directory)}` lists them; ALTER CLUSTER REVOKE CERTIFICATE also"
            " takes those of other authorities",
        )
    certificate = read_certificates(path, read_public_file(path))[0]
    return name_of(path, certificate), certificate, serial


def _record(authority: Authority, own: OwnCertificate) -> None:
    folder = authority.directory / ISSUED
    check_folder(folder)
    write_file(folder / f"{own.serial:x}.pem", own.chain_pem)


def _is_signed_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


# ---------------------------------------------------------------- signing


def _sign_authority(owner: str, key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    serial = x509.random_serial_number()
    begin = now.replace(microsecond=0) - _SKEW
    # An authority and its successor have different names, so that each certificate says which of them signed it.
    name = _subject(f"CA {owner[:16]} {serial:040x}"[:28])
    return (
        x509.CertificateBuilder(name, name, key.public_key(), serial, begin, begin + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .add_extension(x509.NameConstraints([x509.DNSName(authority_domain(owner))], None), critical=True)
        .add_extension(_uri(authority_uri(owner)), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _sign_identity(authority: Authority, whose: CertificateName, days: int, now: datetime) -> bytes:
    """A new key and its certificate. It ends with the authority's at the latest."""
    path = authority.directory / CA
    hint = f"`leasehold ca init NEW --successor-of {typed(authority.directory)}` makes a new authority"
    check_times(path, "the authority", authority.certificate, now, hint=hint)
    key = ec.generate_private_key(ec.SECP256R1())
    begin = now.replace(microsecond=0) - _SKEW
    usages = [ExtendedKeyUsageOID.SERVER_AUTH] * whose.role.is_server + [ExtendedKeyUsageOID.CLIENT_AUTH]
    signed = (
        x509.CertificateBuilder(
            authority.certificate.subject,
            _subject(whose.name if len(whose.name) <= _COMMON_NAME_MAX else whose.label, str(whose.role)),
            key.public_key(),
            x509.random_serial_number(),
            max(begin, authority.certificate.not_valid_before_utc),
            min(begin + _SKEW + timedelta(days=days), authority.certificate.not_valid_after_utc),
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(_uri(whose.uri, *whose.dns_names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_authority_key(authority.certificate), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return key_pem(key) + pem(signed)


def _subject(name: str, unit: str | None = None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Leasehold")]
    if unit is not None:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _uri(uri: str, *dns_names: str) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri), *map(x509.DNSName, dns_names)])


def _authority_key(certificate: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    own = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own.value)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
