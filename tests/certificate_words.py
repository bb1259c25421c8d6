"""An authority and certificates of it, for tests of whatever uses them."""

from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

from leasehold.certificates.authority import create_authority, issue
from leasehold.certificates.names import CertificateRole
from leasehold.wire.tls import Tls, own_tls

HOLDERS = {"node-1": "node", "node-2": "node", "coordinator": "coordinator", "ann": "client"}


def issued(folder: Path) -> Path:
    """A new folder with a bundle for each of HOLDERS, and their authority."""
    folder.mkdir()
    now = datetime.now(UTC)
    authority = create_authority(folder / "authority", token_hex(16), now)
    for name, role in HOLDERS.items():
        issue(authority, CertificateRole(role), name, 1, folder / name, now)
    return folder


def of_process(folder: Path) -> Tls:
    role = CertificateRole.COORDINATOR if folder.name == "coordinator" else CertificateRole.NODE
    return own_tls(folder, role)
