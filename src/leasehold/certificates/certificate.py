"""One certificate or key: reads it, and tells what is in it. Whatever is in a file, only `BadCertificate` is raised."""

import warnings
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.utils import CryptographyDeprecationWarning

from leasehold.certificates.files import pem_blocks
from leasehold.certificates.names import CertificateName, parse_authority_uri, parse_uri
from leasehold.errors import BadCertificate
from leasehold.limits.certificates import CERTIFICATE_CURVE_BITS_MIN, CERTIFICATE_RSA_BITS_MIN

E = TypeVar("E", bound=x509.ExtensionType)
T = TypeVar("T")

_CERTIFICATE: Final = "CERTIFICATE"
_PARAMETERS: Final = "EC PARAMETERS"
"""Older versions of openssl write them beside a key, which has them too."""
_LEAF_CURVES: Final = (ec.SECP256R1, ec.SECP384R1)
"""Those that gRPC accepts in a handshake."""
_STRONG_HASHES: Final = (hashes.SHA256, hashes.SHA384, hashes.SHA512)
_REFUSALS: Final = (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension, x509.InvalidVersion)
"""What `cryptography` raises for bytes that it can't read."""


def refused(path: Path, field: str, what: str, *, hint: str) -> BadCertificate:
    """The error for one field of a certificate in a file."""
    return BadCertificate(f"{path}: {field}: {what}", hint=hint)


def show_time(at: datetime) -> str:
    """A time for people, in UTC."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


# ---------------------------------------------------------------- reading


def split_pem(path: Path, content: bytes) -> tuple[list[bytes], list[x509.Certificate]]:
    """The private keys, still as text, and the certificates in a file. Raises `BadCertificate`."""
    keys: list[bytes] = []
    certificates: list[x509.Certificate] = []
    for label, block in pem_blocks(path, content):
        if label.endswith("PRIVATE KEY"):
            keys.append(block)
        elif label == _CERTIFICATE:
            certificates.append(_parsed(path, block))
        elif label != _PARAMETERS:
            raise BadCertificate(
                f"{path} holds a block {label!r}", hint="leave only certificates, and the key of an identity, in it"
            )
    return keys, certificates


def read_certificates(path: Path, content: bytes) -> list[x509.Certificate]:
    """The certificates in a file that must not hold a key. Raises `BadCertificate`."""
    keys, certificates = split_pem(path, content)
    if keys:
        raise BadCertificate(f"{path} holds a private key", hint="leave only certificates in it")
    if not certificates:
        raise BadCertificate(f"{path} holds no certificate", hint="name a file with certificates in PEM format")
    return certificates


def read_key(path: Path, block: bytes) -> PrivateKeyTypes:
    """A private key. Raises `BadCertificate`, which tells nothing of it."""
    hint = "it must be a key in PEM format without a password"
    if b"ENCRYPTED" in block:
        raise refused(path, "key", "the private key has a password", hint=hint)
    try:
        return serialization.load_pem_private_key(block, None)
    except _REFUSALS:
        raise refused(path, "key", "the private key can't be read", hint=hint) from None


def _parsed(path: Path, block: bytes) -> x509.Certificate:
    try:
        with warnings.catch_warnings(action="ignore", category=CryptographyDeprecationWarning):
            found = x509.load_pem_x509_certificate(block)
            # These are read when they are asked for, and the values that can't be read show only then.
            _ = (found.version, found.extensions, found.subject.rfc4514_string(), found.issuer.rfc4514_string())
            _ = (found.not_valid_before_utc, found.not_valid_after_utc, found.public_key())
            if found.serial_number <= 0:
                raise ValueError("the serial number is not positive")
    except _REFUSALS as error:
        raise BadCertificate(
            f"{path} holds a certificate that can't be read", hint="`openssl x509 -text -in FILE` may say why"
        ) from error
    return found


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    """The value of an extension, None if there is none."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


# ---------------------------------------------------------------- what it says


def uris_of(certificate: x509.Certificate) -> list[str]:
    return _names_of(certificate, lambda names: names.get_values_for_type(x509.UniformResourceIdentifier))


def dns_names_of(certificate: x509.Certificate) -> list[str]:
    return _names_of(certificate, lambda names: names.get_values_for_type(x509.DNSName))


def _names_of(certificate: x509.Certificate, chosen: Callable[[x509.SubjectAlternativeName], list[str]]) -> list[str]:
    names = extension(certificate, x509.SubjectAlternativeName)
    return [] if names is None else chosen(names)


def name_of(path: Path, certificate: x509.Certificate) -> CertificateName:
    """Who a certificate is for. Raises `BadCertificate` unless it has exactly one URI, which says so."""
    uris = uris_of(certificate)
    hint = "the certificate must have one URI, leasehold://<32 hex digits>/<node, coordinator or client>/<name>"
    if len(uris) != 1:
        raise refused(path, "subjectAltName", f"it has {len(uris)} URIs", hint=hint)
    try:
        return parse_uri(uris[0])
    except BadCertificate as error:
        raise refused(path, "subjectAltName", error.text, hint=error.hint) from error


def authority_of(certificate: x509.Certificate) -> str | None:
    """The id in an authority's certificate; None if this is not one that `leasehold ca init` made."""
    found = [parse_authority_uri(uri) for uri in uris_of(certificate)]
    return found[0] if len(found) == 1 else None


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the whole certificate, in hex."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def serial_text(certificate: x509.Certificate) -> str:
    """The serial number in hex, as it names the authority's copy of the certificate."""
    return f"{certificate.serial_number:x}"


def is_ended(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_after_utc < now


# ---------------------------------------------------------------- what is refused


def check_times(path: Path, what: str, certificate: x509.Certificate, now: datetime, *, hint: str) -> None:
    """Raises `BadCertificate` for a certificate that has expired or is not valid yet."""
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begins:
        early = f"{what} is valid from {show_time(begins)}, and now it is {show_time(now)}"
        raise refused(path, "notBefore", early, hint="check the clock of this machine")
    if is_ended(certificate, now):
        raise refused(path, "notAfter", f"{what} expired at {show_time(ends)}", hint=hint)


def check_strength(path: Path, certificate: x509.Certificate, *, is_leaf: bool) -> None:
    """Raises `BadCertificate` for a key that is weak, or, in a leaf, of a kind that gRPC does not accept."""
    key = certificate.public_key()
    hint = f"use a key on the curve P-256, or RSA with at least {CERTIFICATE_RSA_BITS_MIN} bits"
    match key:
        case rsa.RSAPublicKey():
            if key.key_size < CERTIFICATE_RSA_BITS_MIN:
                raise refused(path, "key", f"an RSA key of {key.key_size} bits is weak", hint=hint)
        case ec.EllipticCurvePublicKey():
            if key.curve.key_size < CERTIFICATE_CURVE_BITS_MIN:
                raise refused(path, "key", f"a key on the curve {key.curve.name} is weak", hint=hint)
            if is_leaf and not isinstance(key.curve, _LEAF_CURVES):
                raise refused(path, "key", f"TLS takes no key on the curve {key.curve.name}", hint=hint)
        case _:
            if is_leaf:
                raise refused(path, "key", "the key is neither RSA nor on an elliptic curve", hint=hint)


def check_signature_hash(path: Path, certificate: x509.Certificate) -> None:
    """Raises `BadCertificate` for a signature over SHA-1 or another weak hash."""
    used = _value(lambda: certificate.signature_hash_algorithm)
    if not isinstance(used, _STRONG_HASHES):
        name = "none that is known" if used is None else used.name
        raise refused(path, "signature", f"its hash is {name}", hint="have it signed with SHA-256")


def _value(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except _REFUSALS:
        return None
