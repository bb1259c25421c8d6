"""Names in certificates: written and read strictly, and never the same for two."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from leasehold.certificates.names import CertificateName, CertificateRole, parse_authority_uri, parse_uri
from leasehold.errors import BadCertificate, ExitCode
from leasehold.ids import IDENTIFIER, NODE_NAME

AUTHORITY = "0123456789abcdef" * 2
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
SERVERS = st.from_regex(NODE_NAME, fullmatch=True)
NAMES = st.one_of(
    st.builds(
        CertificateName,
        authority=st.sampled_from([AUTHORITY, "f" * 32]),
        role=st.sampled_from([CertificateRole.NODE, CertificateRole.COORDINATOR]),
        name=SERVERS,
    ),
    st.builds(
        CertificateName,
        authority=st.sampled_from([AUTHORITY, "f" * 32]),
        role=st.just(CertificateRole.CLIENT),
        name=st.from_regex(IDENTIFIER, fullmatch=True).filter(lambda name: len(name) <= 128),
    ),
)


def node(name: str) -> CertificateName:
    return CertificateName(authority=AUTHORITY, role=CertificateRole.NODE, name=name)


@given(NAMES)
def test_what_is_written_is_read(name):
    assert parse_uri(name.uri) == name
    assert parse_authority_uri(name.uri) is None
    for one in name.dns_names:
        assert one.endswith(f".{name.authority[:16]}.leasehold.internal")
        assert len(one) <= 253
        assert all(LABEL.fullmatch(label) for label in one.split("."))


@given(NAMES, NAMES)
def test_two_names_share_neither_uri_nor_dns_name(one, other):
    assume(one != other)
    assert one.uri != other.uri
    assert not one.dns_names or one.dns_names[0] not in other.dns_names


@given(SERVERS)
def test_a_name_never_has_the_label_of_another(name):
    label = node(name).label
    assert label == name or node(label).label != label, "a name that looks like a hash is hashed"


def test_how_names_look():
    assert node("node-1").uri == f"leasehold://{AUTHORITY}/node/node-1"
    assert node("node-1").dns_names == (
        "node-1.node.0123456789abcdef.leasehold.internal",
        "node.0123456789abcdef.leasehold.internal",
    )
    hashed = "x--8a937c95b229d7cfef9901a6ebf443b8"
    assert node("Node_1").dns_names[0] == f"{hashed}.node.0123456789abcdef.leasehold.internal"
    assert all(node(name).label.startswith("x--") for name in ("a.b", "N", "n_", "n-", hashed))
    assert CertificateName(authority=AUTHORITY, role=CertificateRole.CLIENT, name="alice").dns_names == ()


@pytest.mark.parametrize(
    "text",
    [
        f"leasehold://{AUTHORITY}/node/",
        f"leasehold://{AUTHORITY}/node/a/b",
        f"leasehold://{AUTHORITY}/node/a b",
        f"leasehold://{AUTHORITY}/node/a\n",
        f"leasehold://{AUTHORITY}/node/%61",
        f"leasehold://{AUTHORITY}/node/a?x",
        f"leasehold://{AUTHORITY}/node/{'n' * 64}",
        f"leasehold://{AUTHORITY}/node/\u0430",
        f"leasehold://{AUTHORITY}/NODE/a",
        f"leasehold://{AUTHORITY}/king/a",
        f"leasehold://{AUTHORITY}/client/a-b",
        f"leasehold://{AUTHORITY}/client/{'u' * 129}",
        f"leasehold://{AUTHORITY.upper()}/node/a",
        f"leasehold://{AUTHORITY[1:]}/node/a",
        f"LEASEHOLD://{AUTHORITY}/node/a",
        f" leasehold://{AUTHORITY}/node/a",
        f"spiffe://{AUTHORITY}/node/a",
        "",
    ],
)
def test_any_other_uri_is_refused(text):
    with pytest.raises(BadCertificate) as refused:
        parse_uri(text)
    assert refused.value.exit_code is ExitCode.USAGE
    assert parse_authority_uri(text) is None
