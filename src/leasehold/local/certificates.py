"""The certificates of a cluster on one machine, below its directory, of an authority of its own.

<directory>/tls/authority/   the authority, with its key
<directory>/tls/<process>/   the bundle of each process
<directory>/tls/client/      a bundle for whoever may read it: the owner of the cluster
<directory>/tls/ca.pem       the authority's certificate, for everybody who logs in with a password

A cluster without this folder is one without TLS. The authority and each bundle appear whole, or not at all.
"""

import shutil
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from leasehold.certificates.files import CA, read_public_file
from leasehold.certificates.names import CertificateName, CertificateRole
from leasehold.client.trust import CLIENT_FOLDER, TLS_FOLDER, WITHOUT_TLS
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadCertificate, Refused
from leasehold.limits.certificates import CERTIFICATE_DAYS_MAX
from leasehold.local.files import make_directory, write_whole
from leasehold.wire.entropy import SystemEntropy

AUTHORITY_FOLDER: Final = "authority"
_CLIENT_NAME: Final = "owner"
_RENEWED_BEFORE: Final = timedelta(days=CERTIFICATE_DAYS_MAX / 2)


class LocalCertificates:
    """Those of the cluster in a directory."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / TLS_FOLDER
        self._authority = self._folder / AUTHORITY_FOLDER

    @property
    def exist(self) -> bool:
        return self._authority.exists()

    def settle(self, tls: bool | None, *, is_new: bool) -> None:
        """Decides whether the cluster uses TLS: a new one if it is asked for, any other one as it does. Raises
        `Refused` (OTHER_TLS) if it should do without and does not."""
        if is_new and tls:
            self._make_authority()
        elif self.exist and tls is False:
            raise Refused(
                f"the cluster in {self._folder.parent} was made with TLS",
                code=ErrorCode.OTHER_TLS,
                hint="leave out --insecure, or choose another --dir for a new cluster",
            )

    def _make_authority(self) -> None:
        from leasehold.certificates.authority import create_authority  # noqa: PLC0415 - slow to load, and few need it

        make_directory(self._folder)
        if not self.exist:
            create_authority(self._authority, SystemEntropy().hex_128(), datetime.now(UTC))

    def issue(self, nodes: Iterable[str], coordinators: Iterable[str], *, new: Collection[str] = ()) -> None:
        """A bundle for each process and for clients. One that can't be used is replaced. One whose certificate ends in
        less than half of the longest time is renewed, and so are those of the nodes that are `new`: a removed node may
        have had the name."""
        from leasehold.certificates.authority import issue, open_authority, renew  # noqa: PLC0415 - as above

        authority, now = open_authority(self._authority), datetime.now(UTC)
        wanted = dict.fromkeys(nodes, CertificateRole.NODE)
        wanted |= dict.fromkeys(coordinators, CertificateRole.COORDINATOR)
        bundles = [(self._folder / name, role, name) for name, role in wanted.items()]
        bundles.append((self._folder / CLIENT_FOLDER, CertificateRole.CLIENT, _CLIENT_NAME))
        for bundle, role, name in bundles:
            # A removal in this second would not let it count otherwise (`core.access.certified_names.certified_after`).
            at = now + timedelta(seconds=1) if name in new else now
            left = _left(bundle, CertificateName(authority=authority.id, role=role, name=name), now)
            if left is None:
                shutil.rmtree(bundle, ignore_errors=True)
                issue(authority, role, name, CERTIFICATE_DAYS_MAX, bundle, at)
            elif left < _RENEWED_BEFORE or name in new:
                renew(authority, bundle, CERTIFICATE_DAYS_MAX, at)
        public = self._folder / CA
        write_whole(public, read_public_file(self._authority / CA))
        public.chmod(0o644)

    @property
    def client(self) -> str:
        """What a client takes as `tls`."""
        return str(self._folder / CLIENT_FOLDER) if self.exist else WITHOUT_TLS

    def words(self, name: str) -> list[str]:
        """The options of a process."""
        return ["--tls", str(self._folder / name)] if self.exist else []


def _left(bundle: Path, whose: CertificateName, now: datetime) -> timedelta | None:
    """How long the certificate in a bundle still holds; None if there is no such bundle, or it can't be used."""
    from leasehold.certificates.checks import load_own  # noqa: PLC0415 - as above

    try:
        own = load_own(bundle, now)
    except BadCertificate:
        return None
    return own.not_after - now if own.name == whose else None
