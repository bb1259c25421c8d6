"""Breaks of the checks of a certificate: of the own one when a process starts, and of a caller's at the door."""

from tests.mutants.certificates import CALLERS, TLS
from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

UNSEEN = "a random cluster has no certificates"
BUNDLES = "tests/unit/certificates/test_bundle_checks.py"
KNOWN = "tests/unit/wire/test_who_is_known.py"


def _refused(name: str, rule: str, edit: Edit, hunter: str = BUNDLES) -> Mutant:
    return Mutant(name=name, invariant="INV-ID-2", rule=rule, edits=(edit,), hunters=(hunter,), unseen=UNSEEN)


MUTANTS = (
    _refused(
        "a key of another certificate",
        "the key of a bundle belongs to its certificate",
        Edit("check_own", "_public_bytes(key.public_key()) != _public_bytes(leaf.public_key())", "False"),
    ),
    _refused(
        "a certificate out of its time",
        "a bundle is refused before and after the time of its certificate",
        Edit(
            "check_own", 'check_times(path, f"the certificate of {name}", leaf, now, hint=_hint_to_renew(bundle))', ""
        ),
    ),
    _refused(
        "a weak key",
        "a bundle with a key that is too weak is refused",
        Edit("check_own", "check_strength(path, leaf, is_leaf=True)", ""),
    ),
    _refused(
        "a weak signature",
        "a bundle that is signed with a broken hash is refused",
        Edit("check_own", "for one in chain:\n    check_signature_hash(path, one)", ""),
    ),
    _refused(
        "the DNS names of others",
        "a certificate has the DNS names of its own name, and no others of the domain",
        Edit("check_own", "_check_dns_names(path, leaf, name)", ""),
    ),
    _refused(
        "a certificate for another use",
        "a certificate is for the uses of its role",
        Edit("check_own", "_check_usage(path, leaf, name)", ""),
    ),
    _refused(
        "a certificate that nobody trusted has signed",
        "a chain leads from a certificate to an authority that its bundle trusts",
        Edit("check_own", "_check_chain(bundle, leaf, intermediates, trusted, now)", ""),
    ),
    _refused(
        "an authority that is none",
        "only certificates of authorities are trusted to sign",
        Edit("read_roots", "basic is None or not basic.ca", "False"),
    ),
    _refused(
        "authorities that have ended",
        "one of the authorities that are trusted is valid now",
        Edit("read_roots", "all(is_ended(one, now) for one in found)", "False"),
    ),
    _refused(
        "a key that others may read",
        "a key that another user of the machine may read is refused",
        Edit("read_key_file", "read_secret", "read_any"),
    ),
    _refused(
        "authorities that others may change",
        "a file that says who is trusted is refused if another user may change it",
        Edit("read_public_file", "read_trusted", "read_any"),
    ),
    _refused(
        "a members' door that asks for no certificate",
        "a connection to the members' door needs a certificate",
        Edit("server_context", "context.verify_mode = ssl.CERT_REQUIRED", ""),
        TLS,
    ),
    _refused(
        "the report of a coordinator by others",
        "only a coordinator reports as one",
        Edit("check_caller", "caller.role is not CallerRole.COORDINATOR", "False"),
        CALLERS,
    ),
    _refused(
        "a cluster founded by a stranger",
        "a new meta storage gets its cluster from somebody with a certificate",
        Edit("check_founder", "_check_no_stranger(caller)", ""),
        CALLERS,
    ),
    _refused(
        "a member by a certificate that counts no more",
        "a server knows a member by a certificate that counts",
        Edit("CallerNames.standings", "check_counts(caller)", "pass"),
        KNOWN,
    ),
    _refused(
        "a connection that outlives its certificate",
        "the connections end on which a certificate was shown that counts no more",
        Edit("DoorConnection.sweep", "self._judge()", "pass"),
        KNOWN,
    ),
)
