"""The checkup of the ways to other processes: each is called as this process would call it, with its certificate."""

import socket
import ssl
from pathlib import Path
from typing import Final, NamedTuple

from leasehold.certificates.files import IDENTITY
from leasehold.certificates.names import CertificateRole
from leasehold.cli.checkup.finding import HostFinding, fine, wrong
from leasehold.core.words.addresses import host_of
from leasehold.core.words.messages import ClusterFacts, WhoAreYou
from leasehold.errors import LeaseholdError
from leasehold.ids import ClusterId
from leasehold.limits.checkup import CHECKUP_CONNECT_NS, CHECKUP_PACKET_BYTES_MIN
from leasehold.limits.units import SECOND_NS
from leasehold.wire.addresses import split
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.tls import Tls

_GREETING: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""How a client begins HTTP/2 (RFC 9113, 3.4). A server answers with its settings."""
_MTU: Final = {socket.AF_INET: (socket.IPPROTO_IP, 14), socket.AF_INET6: (socket.IPPROTO_IPV6, 24)}
"""Linux's IP_MTU and IPV6_MTU: the longest packet on the way of a connection, as far as this machine knows."""
_OTHER_NAME: Final = 62
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH."""


class OtherProcess(NamedTuple):
    """A process that should be there."""

    role: CertificateRole
    name: str
    """As gossip shows it; empty for an address from the configuration."""
    address: str

    @property
    def check(self) -> str:
        return f"{self.role} {self.name} at {self.address}" if self.name else f"{self.role} at {self.address}"


def check_process(process: OtherProcess, tls: Tls | None) -> tuple[HostFinding, ClusterId | None]:
    """Connects to a process, and asks a coordinator which cluster it serves."""
    failure = _greeted(process, tls)
    if failure is not None:
        return failure, None
    if process.role is not CertificateRole.COORDINATOR:
        return fine(process.check, "answers"), None
    connection = BlockingConnection(process.address, tls)
    try:
        facts = connection.call(WhoAreYou(), CHECKUP_CONNECT_NS)
    except LeaseholdError as error:
        return wrong(process.check, error.text, error.hint), None
    finally:
        connection.close()
    if not isinstance(facts, ClusterFacts):
        return wrong(process.check, f"it answers with {type(facts).__name__}", "correct the address"), None
    return fine(
        process.check, f"{'leads' if facts.leader else 'follows in'} cluster {facts.cluster_id}"
    ), facts.cluster_id


def _greeted(process: OtherProcess, tls: Tls | None) -> HostFinding | None:
    """What is wrong with a connection up to the first word of HTTP/2."""
    host, port = split(process.address)
    try:
        with socket.create_connection((host, port), CHECKUP_CONNECT_NS / SECOND_NS) as plain:
            level, option = _MTU[plain.family]
            packet_bytes = plain.getsockopt(level, option)
            if packet_bytes < CHECKUP_PACKET_BYTES_MIN:
                hint = f"raise the MTU on the way, for example of a tunnel, to {CHECKUP_PACKET_BYTES_MIN}"
                return wrong(process.check, f"the way there takes packets of at most {packet_bytes} bytes", hint)
            with _secured(plain, process.role, tls) as greeting:
                greeting.sendall(_GREETING)
                if greeting.recv(1):
                    return None
    except (OSError, UnicodeError) as error:
        return wrong(process.check, *_explained(error, process.address, f"{process.role} of this cluster"))
    hint = "look into its log; and with --tls give this process a certificate, if the other one has one"
    return wrong(process.check, "it closes the connection at once", hint)


def check_store(address: str) -> HostFinding:
    """Connects to a member of the store of a shared meta storage."""
    check = f"store at {address}"
    try:
        with socket.create_connection(split(address), CHECKUP_CONNECT_NS / SECOND_NS):
            return fine(check, "takes connections")
    except (OSError, UnicodeError) as error:
        return wrong(check, *_explained(error, address, "member of a store"))


def unknown_host(address: str) -> tuple[str, str]:
    """That the name in it is not known, and what to do."""
    return f"{host_of(address)} is not known on this machine", "enter it in DNS, or in /etc/hosts of this machine"


def _explained(error: OSError | UnicodeError, address: str, expected: str) -> tuple[str, str]:
    """What is wrong, and what to do. A `UnicodeError` is about a name that no host can have."""
    port = address.rpartition(":")[2]
    match error:
        case socket.gaierror() | UnicodeError():
            return unknown_host(address)
        case TimeoutError():
            hint = f"look whether that machine runs, and for TCP port {port} in the firewalls; an MTU may be too large"
            return "no answer in time", hint
        case ConnectionRefusedError():
            return "nothing listens there", "start the process there, or correct the address"
        case ssl.SSLCertVerificationError(verify_code=code) if code == _OTHER_NAME:
            hint = f"correct the address: the process there is no {expected}"
            return "it shows the certificate of another process", hint
        case ssl.SSLCertVerificationError(verify_message=why):
            hint = "`leasehold ca show BUNDLE` on both machines shows which authorities they trust, and until when"
            return f"its certificate is not accepted: {why}", hint
        case ssl.SSLError(reason=why):
            return f"TLS fails: {why}", "give both processes certificates of one authority, or neither of them"
        case OSError():
            return f"{error.strerror or error}", "check the network between, and the address"


def _secured(plain: socket.socket, role: CertificateRole, tls: Tls | None) -> socket.socket:
    if tls is None:
        return plain
    context = ssl.create_default_context(cadata=tls.roots.decode())
    context.load_cert_chain(Path(tls.bundle) / IDENTITY)
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(plain, server_hostname=tls.server_name(role))
