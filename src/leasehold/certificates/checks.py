"""Checks the bundle of a process before it listens or connects.

The certificate of another authority is as good as one of `leasehold ca`: what counts is the name in it and that it
leads to an authority that the bundle trusts. The checks refuse early, with the reason. They decide about nobody else:
each handshake verifies the other side's certificate anew.

| checked | of |
| --- | --- |
| the file is small, belongs to its user, and nobody else can read the key or change what is trusted | each file |
| one key, strong, of a kind that TLS takes, which belongs to the first certificate | `identity.pem` |
| one URI, which is a name; the DNS names of a server, and no others of the domain; usages; times | its own |
| strong keys, strong signatures, times | its own and intermediates |
| each is an authority with a strong key, and one of them is valid now | `ca.pem` |
| there is a chain from its own certificate to a trusted one | all |
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import Criticality, ExtensionPolicy, Policy, PolicyBuilder, Store, VerificationError

from leasehold.certificates.certificate import (
    check_signature_hash,
    check_strength,
    check_times,
    dns_names_of,
    extension,
    is_ended,
    name_of,
    pem,
    read_certificates,
    read_key,
    refused,
    show_time,
    split_pem,
)
from leasehold.certificates.files import CA, IDENTITY, check_directory, read_key_file, read_public_file
from leasehold.certificates.names import DOMAIN, CertificateName, CertificateRole
from leasehold.errors import BadCertificate, typed
from leasehold.limits.certificates import CERTIFICATE_CHAIN_MAX, CERTIFICATE_ROOTS_MAX, CHAIN_BYTES_MAX

_USAGES: Final = {ExtendedKeyUsageOID.SERVER_AUTH: "serverAuth", ExtendedKeyUsageOID.CLIENT_AUTH: "clientAuth"}


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnCertificate:
    """The certificate of this process or user, which passed all checks."""

    name: CertificateName
    serial: int
    not_before: datetime
    not_after: datetime
    chain_pem: bytes = field(repr=False)
    """Its own certificate, then those of intermediate authorities."""
    roots_pem: bytes = field(repr=False)
    """The authorities that it trusts."""
    key_pem: bytes = field(repr=False)
    """A secret."""


def load_own(bundle: Path, now: datetime, role: CertificateRole | None = None) -> OwnCertificate:
    """The certificate in a bundle, which must be of that `role` if one is given. Raises `BadCertificate`."""
    check_directory(bundle)
    identity = read_key_file(bundle / IDENTITY)
    own = check_own(bundle, identity, read_public_file(bundle / CA), now)
    if role is not None and own.name.role is not role:
        raise refused(
            bundle / IDENTITY,
            "subjectAltName",
            f"the certificate is of {own.name}, not of a {role}",
            hint=f"name the bundle that `leasehold ca issue CA-DIRECTORY --{role} NAME --to BUNDLE` made",
        )
    return own


def check_own(bundle: Path, identity: bytes, roots: bytes, now: datetime) -> OwnCertificate:
    """The certificate of a bundle whose files have, or are to have, these contents. Raises `BadCertificate`."""
    path = bundle / IDENTITY
    block, chain = split_identity(path, identity)
    key = read_key(path, block)
    leaf, *intermediates = chain
    check_strength(path, leaf, is_leaf=True)
    if _public_bytes(key.public_key()) != _public_bytes(leaf.public_key()):
        raise refused(
            path, "key", "the key does not belong to the first certificate", hint="the first one must be its own"
        )
    name = name_of(path, leaf)
    check_times(path, f"the certificate of {name}", leaf, now, hint=_hint_to_renew(bundle))
    _check_dns_names(path, leaf, name)
    _check_usage(path, leaf, name)
    for one in intermediates:
        check_strength(path, one, is_leaf=False)
        check_times(path, "the certificate of an intermediate authority", one, now, hint="ask your CA for a new chain")
    for one in chain:
        check_signature_hash(path, one)
    chain_pem = b"".join(map(pem, chain))
    if len(chain_pem) > CHAIN_BYTES_MAX:
        text = f"the certificates have {len(chain_pem)} bytes, over {CHAIN_BYTES_MAX}"
        raise refused(path, "chain", text, hint="leave out the root, use shorter names, or keys of P-256")
    trusted = read_roots(bundle / CA, roots, now)
    _check_chain(bundle, leaf, intermediates, trusted, now)
    return OwnCertificate(
        name=name,
        serial=leaf.serial_number,
        not_before=leaf.not_valid_before_utc,
        not_after=leaf.not_valid_after_utc,
        chain_pem=chain_pem,
        roots_pem=b"".join(map(pem, trusted)),
        key_pem=key_pem(key),
    )


def split_identity(path: Path, content: bytes) -> tuple[bytes, list[x509.Certificate]]:
    """The private key, still as text, and the certificates in the identity file of a bundle. Raises
    `BadCertificate`."""
    keys, chain = split_pem(path, content)
    if len(keys) != 1:
        raise refused(
            path, "key", f"it holds {len(keys)} private keys", hint="leave the key of its own certificate in it"
        )
    if not 1 <= len(chain) <= CERTIFICATE_CHAIN_MAX:
        hint = f"it must hold its own certificate, then intermediate ones, at most {CERTIFICATE_CHAIN_MAX} in all"
        raise BadCertificate(f"{path} holds {len(chain)} certificates", hint=hint)
    return keys[0], chain


def read_roots(path: Path, content: bytes, now: datetime) -> list[x509.Certificate]:
    """The authorities in a file, of which at least one is valid now. Raises `BadCertificate`."""
    found = read_certificates(path, content)
    if len(found) > CERTIFICATE_ROOTS_MAX:
        raise too_many_roots(path)
    for one in found:
        check_strength(path, one, is_leaf=False)
        basic = extension(one, x509.BasicConstraints)
        if basic is None or not basic.ca:
            raise refused(
                path,
                "basicConstraints",
                "a certificate is not that of an authority",
                hint="name the CA's own certificate",
            )
    if all(is_ended(one, now) for one in found):
        ended = show_time(max(one.not_valid_after_utc for one in found))
        hint = "`leasehold ca init NEW --successor-of OLD` makes a new authority; `leasehold ca trust` names it"
        raise refused(path, "notAfter", f"the authority expired at {ended}", hint=hint)
    return found


def too_many_roots(path: Path) -> BadCertificate:
    """The error for a file with more authorities than a bundle may trust."""
    return BadCertificate(
        f"{path} has more than {CERTIFICATE_ROOTS_MAX} certificates",
        hint="`leasehold ca trust BUNDLE CA.pem --only` keeps those that are named",
    )


def key_pem(key: PrivateKeyTypes) -> bytes:
    """A secret: a private key as PKCS#8."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public_bytes(key: object) -> bytes:
    public_bytes = getattr(key, "public_bytes")  # noqa: B009 - every kind of key has it, their union has not
    return public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _hint_to_renew(bundle: Path) -> str:
    return f"`leasehold ca renew CA-DIRECTORY {typed(bundle)}` renews it, or ask your CA"


def _check_dns_names(path: Path, leaf: x509.Certificate, name: CertificateName) -> None:
    found = [one.lower().rstrip(".") for one in dns_names_of(leaf)]
    missing = [one for one in name.dns_names if one not in found]
    if missing:
        what = f"the DNS name {missing[0]} is missing"
        raise refused(path, "subjectAltName", what, hint=f"{name} needs the DNS names {' and '.join(name.dns_names)}")
    others = [one for one in found if one.endswith(f".{DOMAIN}") and one not in name.dns_names]
    if others:
        what = f"the DNS name {others[0][:253]!r} is not that of {name}"
        raise refused(path, "subjectAltName", what, hint="have a certificate signed without that name")


def _check_usage(path: Path, leaf: x509.Certificate, name: CertificateName) -> None:
    hint = "have the certificate signed with the usages that docs/certificates.md lists"
    extended = extension(leaf, x509.ExtendedKeyUsage)
    needed = [oid for oid in _USAGES if name.role.is_server or oid == ExtendedKeyUsageOID.CLIENT_AUTH]
    lacking = [_USAGES[oid] for oid in needed if extended is None or oid not in extended]
    if lacking:
        raise refused(path, "extendedKeyUsage", f"{' and '.join(lacking)} is missing for {name}", hint=hint)
    usage = extension(leaf, x509.KeyUsage)
    if usage is not None and not usage.digital_signature:
        raise refused(path, "keyUsage", "digitalSignature is missing", hint=hint)
    basic = extension(leaf, x509.BasicConstraints)
    if basic is not None and basic.ca:
        raise refused(path, "basicConstraints", f"the certificate of {name} is that of an authority", hint=hint)


# ---------------------------------------------------------------- the chain


def _check_chain(
    bundle: Path,
    leaf: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    roots: Sequence[x509.Certificate],
    now: datetime,
) -> None:
    authorities = (
        ExtensionPolicy.permit_all()
        .require_present(x509.BasicConstraints, Criticality.AGNOSTIC, None)
        .may_be_present(x509.KeyUsage, Criticality.AGNOSTIC, _check_signs)
    )
    own = ExtensionPolicy.permit_all().require_present(x509.SubjectAlternativeName, Criticality.AGNOSTIC, None)
    policy = PolicyBuilder().store(Store(list(roots))).time(now)
    verifier = policy.extension_policies(ca_policy=authorities, ee_policy=own).build_client_verifier()
    try:
        verifier.verify(leaf, list(intermediates))
    except VerificationError as error:
        why = str(error).rpartition("candidates exhausted: ")[2].partition(" (encountered")[0][:200]
        raise refused(
            bundle / IDENTITY,
            "issuer",
            f"no certificate in {bundle / CA} has signed it" + ("" if why.startswith("all ") else f": {why}"),
            hint=f"`leasehold ca trust {typed(bundle)} CA.pem` trusts the authority that signed it",
        ) from error


def _check_signs(_policy: Policy, _certificate: x509.Certificate, usage: x509.KeyUsage | None) -> None:
    """Raises `ValueError`, as the verifier expects it."""
    if usage is not None and not usage.key_cert_sign:
        raise ValueError("an authority's key may not sign certificates")
