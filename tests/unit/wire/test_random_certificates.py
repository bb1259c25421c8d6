"""Random certificates over real sockets: none admits who it does not name, in the one form in which names are written.

The server trusts a company's root, too. That root signs more than what `leasehold ca` makes.
"""

import ipaddress
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.certificate_words import issued, of_process
from tests.unit.certificates.made import BOTH, NOW, Signed, curve_key, root, sign, uri
from tests.unit.wire.test_tls import NEIGHBOUR, FlightCallers, asked

from leasehold.certificates.names import CertificateName, CertificateRole
from leasehold.core.access.callers import Caller, CallerRole
from leasehold.errors import LeaseholdError
from leasehold.wire.flight_server import FlightServer
from leasehold.wire.tls import Tls, read_tls

CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
OWN, OTHER = "OWN", "0" * 32
"""OWN stands for the id of the cluster's authority."""
NAMED = [f"leasehold://{OWN}/{role}/node_1" for role in CertificateRole]
ALMOST = [
    f"leasehold://{OTHER}/node/node_1",
    f"LEASEHOLD://{OWN}/node/node_1",
    f"leasehold://{OWN}/node/node_1/",
    f"leasehold://{OWN}/node/node_1?x",
    f"leasehold://{OWN}/node/node_1\n",
    f"leasehold://{OWN}/node/node_1\0",
    f"leasehold://{OWN}/node/%6eode_1",
    f"leasehold://{OWN}/Node/node_1",
    f"leasehold://{OWN}/admin/node_1",
    f"leasehold://{OWN}/node/",
    f"leasehold://{OWN}/node/{'n' * 64}",
    f" leasehold://{OWN}/node/node_1",
    f"x://leasehold://{OWN}/node/node_1",
    "spiffe://company/node_1",
    "",
]
BESIDE = [
    x509.DNSName("node_1.node.0123456789abcdef.leasehold.internal"),
    x509.RFC822Name("node_1@leasehold.internal"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.RegisteredID(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1")),
    x509.DirectoryName(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "node_1")])),
    x509.OtherName(x509.ObjectIdentifier("1.3.6.1.4.1.99999.2"), b"\x0c\x06node_1"),
]
UNKNOWN = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.3"), b"\x05\x00")
DAYS = (datetime.now(UTC) - NOW) / timedelta(days=1)
COMPANY, STRANGER = (
    root(name, number, days=(DAYS - 9, DAYS + 9)) for name, number in (("company", 1), ("stranger", 2))
)


class Form(NamedTuple):
    uris: tuple[str, ...]
    beside: tuple[x509.GeneralName, ...] = ()
    usages: tuple[x509.ObjectIdentifier, ...] | None = BOTH
    critical: bool | None = None
    """Of an extension that nobody knows; None without one."""
    by: str = "company"
    """Who signs: also `authority below`, `leaf below`, `stranger` or `itself`."""
    days: tuple[int, int] = (-1, 1)

    @property
    def holds(self) -> bool:
        """Whether TLS may take it for the certificate of a client."""
        is_issued = self.by in {"company", "authority below"}
        return (
            is_issued and not self.critical and self.days == (-1, 1) and (self.usages is None or CLIENT in self.usages)
        )


FORMS = st.builds(
    Form,
    uris=st.lists(st.sampled_from([*NAMED, *ALMOST]), max_size=3).map(tuple),
    beside=st.lists(st.sampled_from(BESIDE), max_size=3).map(tuple),
    usages=st.sampled_from([BOTH, BOTH, (CLIENT,), (SERVER,), None]),
    critical=st.sampled_from([None, None, None, False, True]),
    by=st.sampled_from([*["company"] * 4, "authority below", "leaf below", "stranger", "itself"]),
    days=st.sampled_from([*[(-1, 1)] * 6, (-3, -1), (1, 3)]),
)


def made(form: Form, own: Tls) -> Tls:
    """A client that shows such a certificate."""
    days = (DAYS - 9.0, DAYS + 9.0)
    middle: Signed | None = None
    match form.by:
        case "authority below":
            signer = middle = root("below", 3, by=COMPANY, days=days)
        case "leaf below":
            signer = middle = sign(COMPANY, subject="below", key=curve_key(3), days=days, is_authority=False)
        case "itself":
            signer = None
        case _:
            signer = STRANGER if form.by == "stranger" else COMPANY
    leaf = sign(
        signer,
        key=curve_key(4),
        days=(DAYS + form.days[0], DAYS + form.days[1]),
        names=(*(uri(one.replace(OWN, own.authority)) for one in form.uris), *form.beside),
        usages=form.usages,
        is_authority=False,
        extra=() if form.critical is None else ((UNKNOWN, form.critical),),
    )
    chain = leaf.pem + (b"" if middle is None else middle.pem)
    return Tls(authority=own.authority, roots=own.roots, chain=chain, key=leaf.key_pem)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FlightServer, Tls]]:
    pki: Path = issued(tmp_path_factory.mktemp("pki") / "ours")
    own = of_process(pki / "node-1")
    both = Tls(authority=own.authority, roots=own.roots + COMPANY.pem, chain=own.chain, key=own.key)
    server = FlightServer(
        FlightCallers(), listen="127.0.0.1:0", on_fault=lambda fault: pytest.fail(repr(fault)), tls=both
    )
    yield server, read_tls(pki / "ann")
    server.close()


def taken_for(address: str, tls: Tls) -> str | None:
    """None if it is not let in."""
    try:
        return asked(address, tls)
    except LeaseholdError:
        return None


@given(form=FORMS)
@example(form=Form((NAMED[0],)))
@example(form=Form((NAMED[0], NAMED[1])))
@example(form=Form((NAMED[0], NAMED[0])))
@example(form=Form((NAMED[0],), by="authority below"))
@example(form=Form((NAMED[0],), by="leaf below"))
@example(form=Form((NAMED[0],), critical=True))
@example(form=Form((f"{NAMED[0]}\0",)))
@example(form=Form((NAMED[0],), usages=(SERVER,)))
@settings(max_examples=60, deadline=None)
def test_a_certificate_admits_whom_it_names_and_nobody_else(form: Form, served: tuple[FlightServer, Tls]) -> None:
    server, own = served
    found = taken_for(server.address, made(form, own))
    if not form.holds:
        assert found is None, "TLS has let it in"
    elif len(form.uris) == 1 and form.uris[0] in NAMED:
        name = CertificateName(authority=own.authority, role=CertificateRole(form.uris[0].split("/")[3]), name="node_1")
        assert found in {None, repr(Caller(CallerRole(name.role.value), name.name))}
    else:
        assert found in {None, repr(NEIGHBOUR)}, "it names nobody, or several"


def test_a_certificate_of_a_company_is_let_in(served: tuple[FlightServer, Tls]) -> None:
    """So the property above is about certificates that come through."""
    server, own = served
    for number, role in enumerate(CertificateRole):
        for by in ("company", "authority below"):
            found = taken_for(server.address, made(Form((NAMED[number],), by=by), own))
            assert found == repr(Caller(CallerRole(role.value), "node_1"))
