"""An authority signs what its own checks take, and openssl; certificates and authorities are replaced without a gap."""

import subprocess
from datetime import timedelta
from pathlib import Path
from shutil import which

import pytest
from cryptography import x509

from leasehold.certificates.authority import create_authority, issue, open_authority, renew
from leasehold.certificates.checks import load_own
from leasehold.certificates.names import CertificateRole
from leasehold.certificates.summary import summarise
from leasehold.certificates.trust import trust
from leasehold.errors import AlreadyExists, BadCertificate, Refused
from leasehold.limits import certificates as limits
from tests.needs import lacking
from tests.unit.certificates.made import NOW, bundle, root, sign

ID = "0123456789abcdef" * 2
NODE, CLIENT = CertificateRole.NODE, CertificateRole.CLIENT
DAY = timedelta(days=1)


@pytest.fixture
def ca(tmp_path):
    return create_authority(tmp_path / "ca", ID, NOW)


def files(directory: Path) -> dict[str, bytes]:
    return {str(one.relative_to(directory)): one.read_bytes() for one in directory.rglob("*") if one.is_file()}


@pytest.mark.parametrize("role", CertificateRole)
def test_a_bundle_is_issued_and_loaded(role, ca, tmp_path):
    own = issue(open_authority(ca.directory), role, "alice", 90, tmp_path / "bundle", NOW)
    assert load_own(tmp_path / "bundle", NOW, role) == own
    assert (own.name.authority, own.name.role, own.name.name) == (ID, role, "alice")
    assert (own.not_before, own.not_after) == (NOW - timedelta(minutes=1), NOW + 90 * DAY)
    assert load_own(tmp_path / "bundle", own.not_after) == own
    with pytest.raises(BadCertificate, match="expired"):
        load_own(tmp_path / "bundle", own.not_after + timedelta(seconds=1))
    assert (ca.directory / "issued" / f"{own.serial:x}.pem").read_bytes() == own.chain_pem
    made = [tmp_path / "bundle", ca.directory, *tmp_path.glob("*/**/*")]
    assert {one.stat().st_mode & 0o777 for one in made if one.is_dir()} == {0o700}
    assert {one.stat().st_mode & 0o777 for one in made if one.is_file()} == {0o600}
    assert "PRIVATE" not in repr(ca) + repr(own)


@pytest.mark.parametrize(
    ("role", "name"), [(NODE, "node-1"), (NODE, "A.b_c"), (CertificateRole.COORDINATOR, "x"), (CLIENT, "u" * 128)]
)
def test_openssl_accepts_the_chain_for_its_role(role, name, ca, tmp_path):
    if which("openssl") is None:
        lacking("NO OPENSSL")
    own = issue(ca, role, name, 5, tmp_path / "bundle", NOW)

    def verify(*words: str) -> str:
        at = ("-attime", str(int(NOW.timestamp())), "-x509_strict", "-CAfile", str(ca.directory / "ca.pem"))
        command = ["openssl", "verify", *at, *words, str(tmp_path / "bundle/identity.pem")]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    assert verify("-purpose", "sslclient").endswith("OK\n")
    assert verify("-purpose", "sslserver").endswith("OK\n") is role.is_server
    for one in own.name.dns_names:
        assert verify("-verify_hostname", one).endswith("OK\n")
    assert not verify("-verify_hostname", "node-2.node.0123456789abcdef.leasehold.internal").endswith("OK\n")


def test_an_authority_signs_no_other_domain_and_no_authorities(ca):
    certificate = ca.certificate
    [domain] = certificate.extensions.get_extension_for_class(x509.NameConstraints).value.permitted_subtrees or []
    assert domain == x509.DNSName("0123456789abcdef.leasehold.internal")
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value == x509.BasicConstraints(True, 0)
    assert certificate.not_valid_after_utc - NOW > timedelta(days=limits.AUTHORITY_DAYS - 1)


def test_nothing_that_exists_is_replaced(ca, tmp_path):
    issue(ca, NODE, "a", 1, tmp_path / "a", NOW)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    before = files(tmp_path)
    for taken in ("ca", "a", "file", "link", "."):
        with pytest.raises(AlreadyExists):
            create_authority(tmp_path / taken, ID, NOW)
        with pytest.raises(AlreadyExists):
            issue(ca, NODE, "a", 1, tmp_path / taken, NOW)
    with pytest.raises(Refused, match="can't be made"):
        create_authority(tmp_path / "no" / "folder", ID, NOW)
    assert files(tmp_path) == before
    issue(ca, NODE, "b", 1, tmp_path / "empty", NOW)


@pytest.mark.parametrize("place", ["link", "file", "nothing", "open"])
def test_a_copy_is_kept_in_no_folder_but_the_authority_s_own(ca, tmp_path, place):
    """A link in its place would lead the files elsewhere."""
    issue(ca, NODE, "a", 1, tmp_path / "a", NOW)
    issued = ca.directory / "issued"
    issued.rename(tmp_path / "elsewhere")
    if place == "link":
        issued.symlink_to(tmp_path / "elsewhere")
    elif place == "file":
        issued.touch()
    elif place == "open":
        issued.mkdir()
        issued.chmod(0o777)
    before = files(tmp_path)
    for run in (
        lambda: issue(open_authority(ca.directory), NODE, "b", 1, tmp_path / "b", NOW),
        lambda: renew(open_authority(ca.directory), tmp_path / "a", 1, NOW),
    ):
        with pytest.raises(BadCertificate) as caught:
            run()
        assert str(issued) in caught.value.text
    assert files(tmp_path) == before
    assert not (tmp_path / "b").exists()


def test_a_bundle_with_two_keys_is_not_renewed(ca, tmp_path):
    issue(ca, NODE, "a", 1, tmp_path / "a", NOW)
    issue(ca, NODE, "b", 1, tmp_path / "b", NOW)
    identity = tmp_path / "a/identity.pem"
    identity.write_bytes(identity.read_bytes() + load_own(tmp_path / "b", NOW).key_pem)
    before = files(tmp_path)
    with pytest.raises(BadCertificate, match=r"identity\.pem: key: it holds 2 private keys"):
        renew(ca, tmp_path / "a", 1, NOW)
    assert files(tmp_path) == before


def test_a_bundle_is_renewed_also_after_its_end(ca, tmp_path):
    own = issue(ca, NODE, "a", 1, tmp_path / "a", NOW)
    later = NOW + 30 * DAY
    new = renew(ca, tmp_path / "a", 7, later)
    assert load_own(tmp_path / "a", later) == new
    assert new.name == own.name
    assert new.not_after == later + 7 * DAY
    assert new.serial != own.serial
    assert new.key_pem != own.key_pem
    assert sorted(files(tmp_path / "a")) == ["ca.pem", "identity.pem"]
    assert (tmp_path / "a/identity.pem").stat().st_mode & 0o777 == 0o600


def test_no_name_is_renewed_that_this_authority_did_not_sign(ca, tmp_path):
    """Whoever hands in a bundle could otherwise become any node."""
    company = root()
    forged = sign(company)
    made = bundle(tmp_path / "forged", forged.key_pem + forged.pem, (tmp_path / "ca/ca.pem").read_bytes())
    before = files(tmp_path)
    with pytest.raises(BadCertificate, match="issuer: the certificate of node node-1 was not signed by"):
        renew(ca, made, 7, NOW)
    assert files(tmp_path) == before


def test_a_certificate_never_outlives_its_authority(ca, tmp_path):
    end = ca.certificate.not_valid_after_utc
    assert issue(ca, NODE, "a", 90, tmp_path / "a", end - DAY).not_after == end
    with pytest.raises(BadCertificate, match="the authority expired at 2040") as ended:
        renew(ca, tmp_path / "a", 90, end + DAY)
    assert "--successor-of" in ended.value.hint


def test_an_authority_is_changed_while_each_bundle_always_works(ca, tmp_path):
    own = issue(ca, NODE, "a", 90, tmp_path / "a", NOW)
    new = create_authority(tmp_path / "new", "f" * 32, NOW, successor_of=ca.directory)
    assert open_authority(tmp_path / "new").predecessors == (ca.certificate,)
    before = files(tmp_path)
    with pytest.raises(BadCertificate, match="has signed it"):
        renew(new, tmp_path / "a", 90, NOW)
    with pytest.raises(BadCertificate, match="has signed it"):
        trust(tmp_path / "a", [tmp_path / "new/ca.pem"], NOW, only=True)
    assert files(tmp_path) == before
    assert trust(tmp_path / "a", [tmp_path / "new/ca.pem"] * 2, NOW, only=False) == (2, None)
    assert load_own(tmp_path / "a", NOW).name == own.name
    assert renew(new, tmp_path / "a", 90, NOW).name == own.name
    assert trust(tmp_path / "a", [tmp_path / "new/ca.pem"], NOW, only=True) == (1, None)
    assert load_own(tmp_path / "a", NOW).roots_pem == (tmp_path / "new/ca.pem").read_bytes()


def test_a_bundle_that_has_ended_may_trust_a_new_authority_and_be_renewed(ca, tmp_path):
    issue(ca, NODE, "a", 90, tmp_path / "a", NOW)
    end = ca.certificate.not_valid_after_utc + DAY
    new = create_authority(tmp_path / "new", "", end, successor_of=ca.directory)
    (tmp_path / "many.pem").write_bytes(b"".join(root(f"{number}", days=(-1, 9999)).pem for number in range(16)))
    with pytest.raises(BadCertificate, match="more than 16 certificates"):
        trust(tmp_path / "a", [tmp_path / "many.pem"], end, only=False)
    trusts, problem = trust(tmp_path / "a", [tmp_path / "new/ca.pem"], end, only=True)
    assert trusts == 1
    assert problem is not None
    renew(new, tmp_path / "a", 1, end)
    load_own(tmp_path / "a", end)


def test_an_authority_whose_files_do_not_fit_is_refused(ca, tmp_path):
    other = create_authority(tmp_path / "other", "f" * 32, NOW)
    key = ca.directory / "ca-key.pem"
    key.write_bytes((other.directory / "ca-key.pem").read_bytes())
    with pytest.raises(BadCertificate, match="it is not the key of"):
        open_authority(ca.directory)
    key.chmod(0o640)
    with pytest.raises(BadCertificate, match="by other users"):
        open_authority(ca.directory)
    issue(other, NODE, "a", 1, tmp_path / "a", NOW)
    with pytest.raises(BadCertificate, match=r"ca-key\.pem can't be read"):
        open_authority(tmp_path / "a")


def test_a_summary_shows_also_what_is_refused(ca, tmp_path, monkeypatch):
    own = issue(ca, NODE, "a", 1, tmp_path / "a", NOW)
    issue(ca, CLIENT, "bob", 1, tmp_path / "bob", NOW)
    leaf, trusted = summarise(tmp_path / "a", NOW).certificates
    assert (leaf.place, leaf.role, leaf.name, leaf.serial) == ("own", "node", "a", f"{own.serial:x}")
    assert (trusted.place, trusted.role, trusted.authority) == ("trusted", "authority", ID)
    assert leaf.issuer == trusted.name
    assert leaf.dns_names == own.name.dns_names
    ended = summarise(tmp_path / "a", NOW + 2 * DAY)
    assert ended.certificates == (leaf, trusted)
    assert ended.problem is not None
    assert "expired" in ended.problem.text
    whole = summarise(ca.directory, NOW)
    assert sorted(one.name for one in whole.certificates[1:]) == ["a", "bob"]
    assert {one.place for one in whole.certificates} == {"authority", "issued"}
    assert summarise(ca.directory / "ca.pem", NOW).certificates[0].serial == whole.certificates[0].serial
    monkeypatch.setattr("leasehold.certificates.summary.CERTIFICATES_SHOWN_MAX", 1)
    assert (len(summarise(ca.directory, NOW).certificates), summarise(ca.directory, NOW).left_out) == (2, 1)
