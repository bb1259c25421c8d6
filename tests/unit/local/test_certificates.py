"""The certificates of a cluster on one machine: made once, kept, and renewed in time."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from leasehold.certificates.authority import issue, open_authority
from leasehold.certificates.certificate import split_pem
from leasehold.certificates.checks import load_own
from leasehold.certificates.files import CA, IDENTITY
from leasehold.certificates.names import CertificateRole
from leasehold.client.trust import CLIENT_FOLDER, TLS_FOLDER
from leasehold.core.access.certified_names import certified_after
from leasehold.errors import Refused
from leasehold.local.certificates import AUTHORITY_FOLDER, LocalCertificates


@pytest.fixture
def made(tmp_path: Path) -> LocalCertificates:
    certificates = LocalCertificates(tmp_path)
    certificates.settle(tls=True, is_new=True)
    return certificates


def serial(tmp_path: Path, name: str) -> int:
    return load_own(tmp_path / TLS_FOLDER / name, datetime.now(UTC)).serial


def test_each_process_and_the_owner_get_a_bundle_that_is_kept(made: LocalCertificates, tmp_path: Path) -> None:
    made.issue(["node-1", "node-2"], ["coordinator"])
    names = {"node-1": "node", "node-2": "node", "coordinator": "coordinator", CLIENT_FOLDER: "client"}
    for name, role in names.items():
        assert load_own(tmp_path / TLS_FOLDER / name, datetime.now(UTC)).name.role == role
    before = {name: serial(tmp_path, name) for name in names}
    made.settle(tls=True, is_new=True)  # `up` was killed, and is run again
    made.issue(["node-1", "node-2", "node-3"], ["coordinator"])
    assert {name: serial(tmp_path, name) for name in names} == before
    assert made.words("node-3") == ["--tls", str(tmp_path / TLS_FOLDER / "node-3")]


def test_others_may_read_the_root_alone(made: LocalCertificates, tmp_path: Path) -> None:
    made.issue([], [])
    assert (tmp_path / TLS_FOLDER / CA).stat().st_mode & 0o777 == 0o644
    for folder in (AUTHORITY_FOLDER, CLIENT_FOLDER):
        assert (tmp_path / TLS_FOLDER / folder).stat().st_mode & 0o077 == 0


def test_what_ends_soon_or_is_damaged_is_renewed(made: LocalCertificates, tmp_path: Path) -> None:
    folder = tmp_path / TLS_FOLDER
    authority = open_authority(folder / AUTHORITY_FOLDER)
    short = issue(authority, CertificateRole.NODE, "node-1", 90, folder / "node-1", datetime.now(UTC))
    issue(authority, CertificateRole.NODE, "node-2", 398, folder / "node-2", datetime.now(UTC))
    other = issue(authority, CertificateRole.NODE, "node-3", 398, folder / "node-3", datetime.now(UTC))
    identity = (folder / "node-3" / IDENTITY).read_bytes()
    key = identity[: identity.index(b"-----BEGIN CERT")]
    mixed = key + (folder / "node-2" / IDENTITY).read_bytes()[len(key) :]
    (folder / "node-3" / IDENTITY).write_bytes(mixed)  # the key of one, the certificate of another
    kept = serial(tmp_path, "node-2")
    made.issue(["node-1", "node-2"], [])
    assert serial(tmp_path, "node-1") != short.serial
    assert serial(tmp_path, "node-2") == kept
    made.issue(["node-3"], [])
    replaced = load_own(folder / "node-3", datetime.now(UTC))
    assert (replaced.name.name, replaced.serial != other.serial) == ("node-3", True)


def test_a_cluster_keeps_what_it_was_made_with(made: LocalCertificates, tmp_path: Path) -> None:
    made.settle(tls=None, is_new=False)
    with pytest.raises(Refused) as caught:
        made.settle(tls=False, is_new=False)
    assert caught.value.code == "OTHER_TLS"
    without = LocalCertificates(tmp_path / "without")
    without.settle(tls=True, is_new=False)
    assert (without.exist, without.client, without.words("node-1")) == (False, "", [])


def test_the_certificate_of_a_new_node_counts_though_its_name_was_removed_in_the_same_second(
    made: LocalCertificates, tmp_path: Path
) -> None:
    made.issue(["node-1"], [])
    removed_us = int(datetime.now(UTC).timestamp() * 1_000_000)
    made.issue(["node-1"], [], new=["node-1"])
    path = tmp_path / TLS_FOLDER / "node-1" / IDENTITY
    [certificate] = split_pem(path, path.read_bytes())[1]
    assert certificate.not_valid_before_utc.timestamp() >= certified_after(removed_us)
