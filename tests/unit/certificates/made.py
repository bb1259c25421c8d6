"""Certificates that no `leasehold ca` would make, as companies make them, or wrong in one field."""

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from leasehold.certificates.names import CertificateName, CertificateRole

NOW = datetime(2030, 5, 17, 12, tzinfo=UTC)
NODE = CertificateName(authority="5a" * 16, role=CertificateRole.NODE, name="node-1")
BOTH = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


class Signed(NamedTuple):
    """A certificate with its key."""

    certificate: x509.Certificate
    key: Any

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return written(self.key)


def written(key: Any, form: Any = serialization.PrivateFormat.PKCS8, password: bytes = b"") -> bytes:
    sealed = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, sealed)


@cache
def curve_key(number: int = 0, curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    """The key of that number, the same for all tests of a process."""
    return ec.generate_private_key(curve())


@cache
def rsa_key(bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


def sign(
    by: Signed | None = None,
    *,
    subject: str = "somebody",
    key: Any = None,
    days: tuple[float, float] = (-1, 30),
    names: tuple[Any, ...] | None = None,
    usages: tuple[x509.ObjectIdentifier, ...] | None = BOTH,
    is_authority: bool | None = None,
    may: dict[str, bool] | None = None,
    extra: tuple[tuple[Any, bool], ...] = (),
) -> Signed:
    """A certificate signed `by` another, or by itself; of `NODE` by default. `may` are key usages."""
    key = curve_key() if key is None else key
    names = (uri(NODE.uri), *map(x509.DNSName, NODE.dns_names)) if names is None else names
    builder = x509.CertificateBuilder(
        issuer_name=_subject(subject) if by is None else by.certificate.subject,
        subject_name=_subject(subject),
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=NOW + timedelta(days=days[0]),
        not_valid_after=NOW + timedelta(days=days[1]),
    )
    added = list(extra)
    if names:
        added.append((x509.SubjectAlternativeName(names), False))
    if usages:
        added.append((x509.ExtendedKeyUsage(usages), False))
    if is_authority is not None:
        added.append((x509.BasicConstraints(ca=is_authority, path_length=None), True))
    if may is not None:
        added.append((x509.KeyUsage(**dict.fromkeys(_KEY_USAGES, False) | may), True))
    for value, is_critical in added:
        builder = builder.add_extension(value, is_critical)
    return Signed(builder.sign((key if by is None else by.key), hashes.SHA256()), key)


_KEY_USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


def root(subject: str = "company", number: int = 100, **changes: Any) -> Signed:
    """A company's own authority; each number has its own key."""
    by = changes.pop("by", None)
    changes = {"key": curve_key(number), "names": (), "usages": None, "is_authority": True} | changes
    return sign(by, subject=subject, **changes)


def bundle(directory: Path, identity: bytes, roots: bytes) -> Path:
    directory.mkdir(mode=0o700)
    for name, content in {"identity.pem": identity, "ca.pem": roots}.items():
        (directory / name).write_bytes(content)
        (directory / name).chmod(0o600)
    return directory


def uri(text: str) -> x509.UniformResourceIdentifier:
    return x509.UniformResourceIdentifier(text)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
