"""TLS of this process: whom it trusts, the certificate that it shows, and the two doors of each server.

An address names a process. Over TLS a server has two doors there (docs/decisions/0044-two-doors-one-address.md):

| door | port | TLS | for |
| --- | --- | --- | --- |
| of members | that of the address | both sides show a certificate | nodes, coordinators, clients with a certificate |
| of strangers | the next one | the server alone shows a certificate | who logs in with a password |

Servers are checked by name, so a process keeps its name under any address.
"""

import binascii
import contextlib
import logging
import re
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol, Self

import grpc
import msgspec

from leasehold.certificates.files import CA, IDENTITY, check_directory, pem_blocks, read_key_file, read_public_file
from leasehold.certificates.names import CertificateName, CertificateRole, parse_uri, role_dns_name
from leasehold.core.access.callers import Caller, CallerRole
from leasehold.core.words.addresses import is_loopback
from leasehold.errors import BadCertificate, Forbidden
from leasehold.limits.certificates import CALLERS_CACHED_MAX
from leasehold.wire.addresses import next_port
from leasehold.wire.http2.tls_end import server_context
from leasehold.wire.known_peers import PeerStanding

log = logging.getLogger(__name__)

_AUTHORITY: Final = re.compile(rb"leasehold://([0-9a-f]{32})/")
_URI: Final = "peer_uri"
"""Where a call tells the URIs of the certificate of its peer, by gRPC's names."""
_PEM: Final = "x509_pem_cert"
"""Where it tells the certificate."""


class TlsSource(Protocol):
    """What a process shows and trusts may be replaced while it runs."""

    def now(self) -> "Tls":
        """For the next connection."""
        ...


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """Whom this process trusts, and what it shows. Equal values share their connections. It is its own `TlsSource`."""

    authority: str
    """Of the cluster whose servers this process expects."""
    roots: bytes
    """PEM."""
    chain: bytes = b""
    """PEM: the certificate of this process, and those between it and a root; empty without one."""
    key: bytes = b""
    """PEM; a secret."""
    bundle: str = ""
    """Where the certificate was read."""
    until: datetime | None = None
    """When its certificate ends; None if that was not checked."""
    owner: str = ""
    """Whose its certificate is, such as `node node-1`; empty if that was not checked."""

    def now(self) -> Self:
        return self

    def __repr__(self) -> str:
        return f"Tls({self.authority!r})"

    @property
    def has_certificate(self) -> bool:
        return bool(self.chain)

    def door(self, address: str) -> str:
        """Where this process connects to reach the server at `address`."""
        return address if self.has_certificate else next_port(address)

    def server_name(self, role: CertificateRole, name: str = "") -> str:
        """What the certificate of that server is for; without a name, of any server of the role."""
        if name:
            return CertificateName(authority=self.authority, role=role, name=name).dns_names[0]
        return role_dns_name(self.authority, role)

    def checks_of_coordinators(self) -> tuple[tuple[str, str], ...]:
        """Options of a channel to a coordinator."""
        return (("grpc.ssl_target_name_override", self.server_name(CertificateRole.COORDINATOR)),)

    def check(self) -> None:
        """Raises `BadCertificate` if the bundle that it was read from is not as it should be."""
        from leasehold.certificates.checks import load_own  # noqa: PLC0415 - slow to load; few need it

        if self.bundle:
            load_own(Path(self.bundle), datetime.now(UTC))

    def for_supervisor(self) -> tuple[str, ...]:
        """What `SupervisorChannel.hand_over` takes."""
        assert self.bundle, "a process has read its certificate from there"
        bundle = Path(self.bundle)
        return self.server_name(CertificateRole.COORDINATOR), str(bundle / CA), str(bundle / IDENTITY)

    def channel(self) -> grpc.ChannelCredentials:
        return _channel(self)


@lru_cache(maxsize=16)
def _channel(tls: Tls) -> grpc.ChannelCredentials:
    if not tls.has_certificate:
        return grpc.ssl_channel_credentials(tls.roots)
    return grpc.ssl_channel_credentials(tls.roots, tls.key, tls.chain)


def read_tls(path: Path) -> Tls:
    """Of a client: from its bundle, or from a file of authorities that it trusts.

    Raises `BadCertificate` for files that are not there or hold something else. To check certificates takes longer than
    a short command: the connection fails by those that are wrong, and `Tls.check` says why.
    """
    if not path.is_dir():
        roots = read_public_file(path)
        return Tls(authority=_authority(path, roots), roots=roots)
    check_directory(path)
    blocks = pem_blocks(path / IDENTITY, read_key_file(path / IDENTITY))
    key = b"".join(text for label, text in blocks if label.endswith("PRIVATE KEY"))
    chain = b"".join(text for label, text in blocks if label == "CERTIFICATE")
    return Tls(
        authority=_authority(path / IDENTITY, chain),
        roots=read_public_file(path / CA),
        chain=chain,
        key=key,
        bundle=str(path),
    )


def own_tls(bundle: Path, role: CertificateRole, name: str | None = None) -> Tls:
    """That of a process of this role, and of this name where it has one. Raises `BadCertificate`."""
    from leasehold.certificates.checks import load_own  # noqa: PLC0415 - slow to load; few need it

    own = load_own(bundle, datetime.now(UTC), role)
    if name not in {None, own.name.name}:
        raise BadCertificate(
            f"{bundle / IDENTITY}: the certificate is of {own.name}, and this is {role} {name}",
            hint=f"`leasehold ca issue CA-DIRECTORY --{role} {name} --to BUNDLE` makes its own",
        )
    return Tls(
        authority=own.name.authority,
        roots=own.roots_pem,
        chain=own.chain_pem,
        key=own.key_pem,
        bundle=str(bundle.absolute()),
        until=own.not_after,
        owner=str(own.name),
    )


def _authority(path: Path, content: bytes) -> str:
    """The authority that a file names: in a line before its certificates, else in the URI of the first one that has
    one, which is plain text in its encoding (RFC 5280, 4.2.1.6)."""
    texts = [content.partition(b"-----BEGIN")[0]]
    with contextlib.suppress(binascii.Error):
        texts += [binascii.a2b_base64(b"".join(text.splitlines()[1:-1])) for _, text in pem_blocks(path, content)]
    found = next((one for text in texts if (one := _AUTHORITY.search(text)) is not None), None)
    if found is None:
        raise BadCertificate(
            f"{path} does not say whose names to expect",
            hint="name a bundle, or put the line leasehold://<32 hex digits>/ before the certificates in this file",
        )
    return found[1].decode()


def context_of(source: TlsSource, *, asks: bool) -> Callable[[], ssl.SSLContext]:
    """What each handshake shows and trusts: what the source has then. `asks` is of a door whose callers have to show a
    certificate."""
    given = source.now()
    context = server_context(given.chain, given.key, given.roots if asks else None)

    def now() -> ssl.SSLContext:
        nonlocal given, context
        present = source.now()
        if present != given:
            try:
                context = server_context(present.chain, present.key, present.roots if asks else None)
            except OSError as error:  # also of OpenSSL: the next connection tries again
                log.warning("a new certificate can't be shown yet: %s", error)
            else:
                given = present
        return context

    return now


class CallerNames:
    """Tells of each call to one server whom TLS has authenticated; `listen` is where the server listens."""

    def __init__(self, tls: TlsSource | None, listen: str) -> None:
        self._authority = None if tls is None else tls.now().authority
        self._nobody = Caller(CallerRole.NEIGHBOUR if is_loopback(listen) else CallerRole.STRANGER)

    def caller(self, facts: Mapping[str, Any]) -> Caller | None:
        """Of what TLS says of a connection. None without TLS. A certificate that names none of this cluster is as good
        as none. Each is parsed once."""
        if self._authority is None:
            return None
        uris, pems = facts.get(_URI) or (), facts.get(_PEM) or ()
        if len(uris) != 1 or len(pems) != 1:
            return self._nobody
        return _certified(bytes(uris[0]), bytes(pems[0]), self._authority) or self._nobody

    def standings(self, check_counts: Callable[[Caller | None], None]) -> Callable[[Mapping[str, Any]], PeerStanding]:
        """What tells the standing of a connection. `check_counts` raises `Forbidden` for a certificate that counts no
        more."""

        def standing(facts: Mapping[str, Any]) -> PeerStanding:
            caller = self.caller(facts)
            if caller is None or not caller.serial:
                return PeerStanding.NONE
            try:
                check_counts(caller)
            except Forbidden:
                return PeerStanding.NONE
            return PeerStanding.MEMBER if caller.is_member else PeerStanding.CLIENT

        return standing


NOBODY_NAMED: Final = CallerNames(None, "127.0.0.1:0")


@lru_cache(maxsize=CALLERS_CACHED_MAX)
def _certified(uri: bytes, pem: bytes, authority: str) -> Caller | None:
    from leasehold.certificates.certificate import read_certificates, serial_text, uris_of  # noqa: PLC0415 - slow to load; only servers need it

    try:
        name = parse_uri(uri.decode(errors="replace"))
        [certificate] = read_certificates(Path("the certificate of a caller"), pem)
    except BadCertificate:
        return None
    # TLS may cut a name at a zero byte: what counts is the whole one, which the authority has signed.
    if name.authority != authority or uris_of(certificate) != [name.uri]:
        return None
    begins_s, ends_s = (
        int(at.timestamp()) for at in (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    )
    return Caller(CallerRole(name.role.value), name.name, serial_text(certificate), begins_s, ends_s)
