"""A bundle with one thing wrong is refused, with its file, field and time; what other authorities sign is as good."""

import os
from base64 import encodebytes
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.certificates.checks import check_own, load_own
from leasehold.certificates.names import CertificateName, CertificateRole
from leasehold.certificates.summary import summarise
from leasehold.errors import BadCertificate, LeaseholdError
from leasehold.limits.certificates import (
    CERTIFICATE_CHAIN_MAX,
    CERTIFICATE_FILE_BYTES_MAX,
    CERTIFICATE_ROOTS_MAX,
)
from tests.few import examples
from tests.unit.certificates.made import BOTH, NODE, NOW, Signed, bundle, curve_key, root, rsa_key, sign, uri, written

ROOT = root()
LEAF = sign(ROOT)
GOOD = LEAF.key_pem + LEAF.pem
OTHER_NODE = CertificateName(authority=NODE.authority, role=CertificateRole.NODE, name="node-2")
ALICE = CertificateName(authority=NODE.authority, role=CertificateRole.CLIENT, name="alice")
DNS = [*map(x509.DNSName, NODE.dns_names)]


def good(directory: Path) -> Path:
    return bundle(directory / "bundle", GOOD, ROOT.pem)


def refused(call: Callable[[], Any], *parts: str) -> None:
    """The error names all `parts`, and neither the key nor more than a line of it."""
    with pytest.raises(BadCertificate) as caught:
        call()
    told = f"{caught.value.text}\n{caught.value.hint}"
    assert all(part in told for part in parts), told
    assert caught.value.hint
    assert "PRIVATE KEY" not in told


def refused_as(identity: Signed | bytes, *parts: str, roots: bytes = ROOT.pem) -> None:
    content = identity if isinstance(identity, bytes) else identity.key_pem + identity.pem
    refused(lambda: check_own(Path("own"), content, roots, NOW), *parts)


def armoured(der: bytes) -> bytes:
    return b"-----BEGIN CERTIFICATE-----\n" + encodebytes(der) + b"-----END CERTIFICATE-----\n"


# ---------------------------------------------------------------- what is good


def test_a_good_bundle_is_loaded_and_hides_its_key(tmp_path):
    own = load_own(good(tmp_path), NOW, CertificateRole.NODE)
    assert own.name == NODE
    assert own.serial == LEAF.certificate.serial_number
    assert (own.chain_pem, own.roots_pem, own.key_pem) == (LEAF.pem, ROOT.pem, LEAF.key_pem)
    assert (NOW - own.not_before).days == 1
    assert (own.not_after - NOW).days == 30
    assert "PRIVATE" not in repr(own)


@pytest.mark.parametrize("key", [rsa_key(2048), curve_key(1, ec.SECP384R1)], ids=["rsa", "p384"])
def test_keys_that_companies_use_are_taken(key):
    leaf = sign(ROOT, key=key)
    for form in (serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL):
        own = check_own(Path("own"), b"a comment\n" + leaf.pem + written(key, form), ROOT.pem, NOW)
        assert own.key_pem == written(key)


def test_intermediates_follow_the_leaf_in_the_identity():
    middle = root("middle", 101, by=ROOT, may={"key_cert_sign": True})
    leaf = sign(middle)
    own = check_own(Path("own"), leaf.key_pem + leaf.pem + middle.pem, root("old", 102).pem + ROOT.pem, NOW)
    assert own.chain_pem == leaf.pem + middle.pem
    refused_as(leaf, "own/identity.pem: issuer: no certificate in own/ca.pem has signed it")
    no_signer = root("middle", 101, by=ROOT, may={"crl_sign": True})
    refused_as(leaf.key_pem + leaf.pem + no_signer.pem, "issuer", "may not sign")
    ended = root("middle", 101, by=ROOT, days=(-9, -3))
    refused_as(leaf.key_pem + leaf.pem + ended.pem, "intermediate", "notAfter", "expired at 2030-05-14T12:00:00Z")
    weak = root("middle", key=rsa_key(1024), by=ROOT)
    refused_as(leaf.key_pem + leaf.pem + weak.pem, "1024 bits")


def test_a_client_needs_no_dns_name_and_only_one_usage():
    leaf = sign(
        ROOT, names=(uri(ALICE.uri),), usages=(ExtendedKeyUsageOID.CLIENT_AUTH,), may={"digital_signature": True}
    )
    assert check_own(Path("own"), leaf.key_pem + leaf.pem, ROOT.pem, NOW).name == ALICE
    refused_as(sign(ROOT, names=(uri(ALICE.uri), *DNS)), "is not that of client alice")


# ---------------------------------------------------------------- what is wrong in a certificate


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"days": (-9, -2)}, ["notAfter", "node node-1", "expired at 2030-05-15T12:00:00Z", "leasehold ca renew"]),
        ({"days": (1, 9)}, ["notBefore", "valid from 2030-05-18T12:00:00Z", "now it is 2030-05-17T12:00:00Z", "clock"]),
        ({"key": rsa_key(1024)}, ["key", "RSA key of 1024 bits is weak"]),
        ({"key": curve_key(0, ec.SECP224R1)}, ["key", "secp224r1 is weak"]),
        ({"key": curve_key(0, ec.SECP521R1)}, ["key", "TLS takes no key on the curve secp521r1"]),
        ({"key": ed25519.Ed25519PrivateKey.generate()}, ["key", "neither RSA nor"]),
        ({"names": ()}, ["subjectAltName", "it has 0 URIs"]),
        ({"names": DNS}, ["subjectAltName", "it has 0 URIs"]),
        ({"names": [uri(NODE.uri), uri(NODE.uri), *DNS]}, ["subjectAltName", "it has 2 URIs"]),
        ({"names": [uri(NODE.uri), uri("spiffe://a/b"), *DNS]}, ["subjectAltName", "it has 2 URIs"]),
        ({"names": [uri(NODE.uri + "/x"), *DNS]}, ["subjectAltName", "is not the name of a node"]),
        ({"names": [uri(NODE.uri), DNS[1]]}, ["subjectAltName", NODE.dns_names[0], "missing"]),
        ({"names": [uri(NODE.uri), DNS[0]]}, ["subjectAltName", NODE.dns_names[1], "missing"]),
        ({"names": [uri(OTHER_NODE.uri), *DNS]}, ["subjectAltName", OTHER_NODE.dns_names[0], "missing"]),
        (
            {"names": [uri(NODE.uri), *DNS, x509.DNSName(OTHER_NODE.dns_names[0])]},
            ["subjectAltName", "node-2.node", "is not that of node node-1"],
        ),
        ({"names": [uri(NODE.uri), *DNS, x509.DNSName("*.Leasehold.internal")]}, ["subjectAltName", "'*.leasehold"]),
        ({"usages": None}, ["extendedKeyUsage", "serverAuth and clientAuth is missing"]),
        ({"usages": BOTH[:1]}, ["extendedKeyUsage", "clientAuth is missing"]),
        ({"usages": BOTH[1:]}, ["extendedKeyUsage", "serverAuth is missing"]),
        ({"may": {"key_encipherment": True}}, ["keyUsage", "digitalSignature is missing"]),
        ({"is_authority": True}, ["basicConstraints", "is that of an authority"]),
        ({"by": None}, ["issuer", "no certificate in own/ca.pem has signed it", "leasehold ca trust own CA.pem"]),
        ({"by": root(number=101)}, ["issuer", "signature does not match"]),
        ({"extra": ((x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3"), b"\5\0"), True),)}, ["issuer", "crit"]),
    ],
)
def test_one_wrong_field_is_refused_by_its_name(changes, parts):
    refused_as(sign(**{"by": ROOT} | changes), "own/identity.pem", *parts)


def test_a_constraint_on_names_is_kept():
    of_others = x509.NameConstraints([x509.DNSName("example.com")], None)
    limited = root(extra=((of_others, True),))
    refused_as(sign(limited), "issuer", "name constraint", roots=limited.pem)


@pytest.mark.parametrize(("name", "number"), [("sha1", 5), ("md5", 4)])
def test_weak_signatures_are_refused(name, number):
    """`cryptography` does not sign with these hashes, so the algorithm is replaced in a certificate."""
    leaf = sign(root(key=rsa_key(2048)))
    algorithm = bytes.fromhex("2a864886f70d0101")
    der = leaf.certificate.public_bytes(serialization.Encoding.DER)
    weak = armoured(der.replace(algorithm + bytes([11]), algorithm + bytes([number])))
    refused_as(leaf.key_pem + weak, f"own/identity.pem: signature: its hash is {name}")


def test_a_negative_serial_number_is_refused_without_a_warning():
    serial = LEAF.certificate.serial_number
    positive = serial.to_bytes(serial.bit_length() // 8 + 1, "big")
    der = LEAF.certificate.public_bytes(serialization.Encoding.DER)
    refused_as(LEAF.key_pem + armoured(der.replace(positive, b"\x80" + positive[1:], 1)), "can't be read")


# ---------------------------------------------------------------- what is wrong in a file


@pytest.mark.parametrize(
    ("identity", "part"),
    [
        (LEAF.pem, "it holds 0 private keys"),
        (GOOD + written(curve_key(7)), "it holds 2 private keys"),
        (LEAF.key_pem, "holds 0 certificates"),
        (GOOD + LEAF.pem * CERTIFICATE_CHAIN_MAX, f"at most {CERTIFICATE_CHAIN_MAX}"),
        (written(curve_key(7)) + LEAF.pem, "does not belong to the first certificate"),
        (written(LEAF.key, password=b"secret") + LEAF.pem, "has a password"),
        (
            written(LEAF.key, serialization.PrivateFormat.TraditionalOpenSSL, b"secret") + LEAF.pem,
            "has a password",
        ),
        (GOOD[:-40], "does not end"),
        (GOOD.replace(b"\nMI", b"\nIM"), "can't be read"),
        (GOOD + b"-----BEGIN X509 CRL-----\n-----END X509 CRL-----\n", "holds a block 'X509 CRL'"),
        (b"\0" * 100, "it holds 0 private keys"),
    ],
)
def test_what_an_identity_may_not_hold(identity, part):
    refused_as(identity, "own/identity.pem", part)


@pytest.mark.parametrize(
    ("roots", "parts"),
    [
        (b"", ["holds no certificate"]),
        (ROOT.pem + ROOT.key_pem, ["holds a private key"]),
        (LEAF.pem, ["basicConstraints", "not that of an authority"]),
        (ROOT.pem * (CERTIFICATE_ROOTS_MAX + 1), [f"more than {CERTIFICATE_ROOTS_MAX}", "--only"]),
        (root(days=(-9, -1)).pem, ["notAfter", "2030-05-16T12:00:00Z", "--successor-of"]),
        (root(key=rsa_key(1024)).pem, ["key", "1024 bits is weak"]),
        (root("other", 102).pem, ["issuer", "has signed it"]),
        (root(days=(3, 9)).pem, ["issuer", "not valid at"]),
    ],
)
def test_what_is_trusted_must_be_authorities(roots, parts):
    refused_as(GOOD, "own/ca.pem", *parts, roots=roots)


def test_files_that_others_could_read_or_change_are_refused(tmp_path):
    made = good(tmp_path)

    def load() -> None:
        load_own(made, NOW)

    for name, mode, part in [
        ("identity.pem", 0o640, "read or changed by other users"),
        ("identity.pem", 0o601, "read or changed by other users"),
        ("ca.pem", 0o620, "can be changed by other users"),
        ("", 0o770, "can be changed by other users"),
    ]:
        before = (made / name).stat().st_mode
        (made / name).chmod(mode)
        refused(load, str(made / name), part, f"its mode is {mode:04o}", "chmod go-")
        (made / name).chmod(before)
    (made / "ca.pem").chmod(0o444)
    load()
    if os.geteuid() == 0:
        os.chown(made / "identity.pem", 12345, 0)
        refused(load, "identity.pem belongs to another user (uid 12345)")


def test_files_that_are_missing_or_no_files_are_refused(tmp_path):
    made = good(tmp_path)
    refused(lambda: load_own(made, NOW, CertificateRole.COORDINATOR), "is of node node-1, not of a coordinator")
    refused(lambda: load_own(tmp_path / "none", NOW), "none", "No such file", "leasehold ca issue")
    refused(lambda: load_own(made / "ca.pem", NOW), "is not a directory")
    with (made / "ca.pem").open("ab") as file:
        file.truncate(CERTIFICATE_FILE_BYTES_MAX + 1)
    refused(lambda: load_own(made, NOW), f"{made}/ca.pem has {CERTIFICATE_FILE_BYTES_MAX + 1} bytes")
    for name in ("ca.pem", "identity.pem"):
        (made / name).unlink()
        refused(lambda: load_own(made, NOW), name, "No such file")
        os.mkfifo(made / name, 0o600)
        refused(lambda: load_own(made, NOW), name, "is not a file")
        (made / name).unlink()
        (made / name).write_bytes(GOOD)
        (made / name).chmod(0o600)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_damaged_files_raise_nothing_but_our_errors(tmp_path, data):
    made = tmp_path / "bundle"
    if not made.exists():
        good(tmp_path)
    der = LEAF.certificate.public_bytes(serialization.Encoding.DER)
    place = data.draw(st.integers(0, len(der) - 1))
    mutated = der[:place] + data.draw(st.binary(max_size=4)) + der[place + data.draw(st.integers(0, 4)) :]
    certificate = LEAF.pem if data.draw(st.booleans()) else armoured(mutated)
    noise = data.draw(st.binary(max_size=60))
    (made / "identity.pem").write_bytes(b"\n".join(data.draw(st.permutations([LEAF.key_pem, certificate, noise]))))
    (made / "ca.pem").write_bytes(data.draw(st.sampled_from([ROOT.pem, certificate, noise])))
    for look in (load_own, summarise):
        with suppress(LeaseholdError):
            look(made, NOW)
