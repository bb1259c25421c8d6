"""Breaks of how tokens and certificates log users in."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

LOGINS = "tests/unit/core/access/test_logins.py"
NAMES = "tests/unit/core/access/test_certified_names.py"
PLANS = "tests/unit/core/ddl/test_plans_tokens.py"
WORLD = "tests/sim/test_tokens.py"
NOBODY = "no client of a random cluster logs in by a token or a certificate"

MUTANTS = (
    Mutant(
        name="a token of another user",
        invariant="INV-RIGHT-1",
        rule="a token logs in the user that it was made for, and no other",
        edits=(Edit("record_login_by_token", "record.user != found.id", "False"),),
        hunters=(f"{LOGINS}::test_a_token_that_is_wrong_another_users_or_expired_logs_nobody_in",),
        unseen=NOBODY,
    ),
    Mutant(
        name="a token that has expired",
        invariant="INV-RIGHT-1",
        rule="a token that has expired logs nobody in",
        edits=(Edit("record_login_by_token", "_has_expired(record, wall_us)", "False"),),
        hunters=(f"{LOGINS}::test_a_token_that_is_wrong_another_users_or_expired_logs_nobody_in",),
        unseen=NOBODY,
    ),
    Mutant(
        name="logins left after DROP TOKEN",
        invariant="INV-RIGHT-1",
        rule="what a token has logged in ends with the token",
        edits=(Edit("end_token", "*ended", ""),),
        hunters=(
            f"{PLANS}::test_a_dropped_token_ends_what_it_has_logged_in_and_nothing_else",
            f"{WORLD}::test_what_a_token_has_opened_ends_with_the_token",
        ),
        unseen=NOBODY,
    ),
    Mutant(
        name="tokens that no leader ends",
        invariant="INV-RIGHT-1",
        rule="a leader ends tokens that have expired, and what they have logged in",
        edits=(Edit("tokens_ended", "_has_expired(one, wall_us)", "False"),),
        hunters=(LOGINS, f"{WORLD}::test_a_token_expires_by_the_clock_of_whoever_leads"),
        unseen=NOBODY,
    ),
    Mutant(
        name="tokens left after DROP USER",
        invariant="INV-RIGHT-1",
        rule="the tokens of a user go with the user",
        edits=(Edit("remove_principal", "*drop_tokens(found.id, catalog)", ""),),
        hunters=(f"{PLANS}::test_tokens_go_with_their_user_past_the_point_of_no_return",),
        unseen="a token of a user who is not there logs nobody in: the user's number is nobody's again",
    ),
    Mutant(
        name="a token that makes tokens",
        invariant="INV-RIGHT-1",
        rule="a login by a token gains nothing that outlives the token",
        edits=(Edit("_is_own", "catalog.logins[login].by_token", "False"),),
        hunters=(
            "tests/unit/core/access/test_rights.py::test_a_login_by_a_token_gains_nothing_that_outlives_the_token",
        ),
        unseen=NOBODY,
    ),
    Mutant(
        name="a token of another user dropped",
        invariant="INV-RIGHT-1",
        rule="a user drops own tokens, and needs ALTER ON CLUSTER for those of others",
        edits=(Edit("_is_own", "token.user == asking.id", "True"),),
        hunters=(f"{PLANS}::test_another_one_makes_or_drops_no_token_of_a_user",),
        unseen="the invariant is about batches of scans",
    ),
    Mutant(
        name="a certificate that is off",
        invariant="INV-RIGHT-1",
        rule="a certificate logs a user in only where that is on",
        edits=(Edit("record_login_by_certificate", "not user.by_certificate", "False"),),
        hunters=(f"{LOGINS}::test_no_other_certificate_logs_in",),
        unseen=NOBODY,
    ),
    Mutant(
        name="a certificate of a process that logs in",
        invariant="INV-RIGHT-1",
        rule="only the certificate of a client logs in",
        edits=(Edit("record_login_by_certificate", "caller.role is not CallerRole.CLIENT", "False"),),
        hunters=(f"{LOGINS}::test_no_other_certificate_logs_in",),
        unseen=NOBODY,
    ),
    Mutant(
        name="certificates on under another name",
        invariant="INV-RIGHT-1",
        rule="certificates of another name log a user in only once that is switched on",
        edits=(Edit("rename_principal", "is_same and found.by_certificate", "found.by_certificate"),),
        hunters=(f"{PLANS}::test_a_user_with_another_name_is_not_opened_by_a_certificate_of_that_name",),
        unseen=NOBODY,
    ),
    Mutant(
        name="a login left after its certificate is revoked",
        invariant="INV-RIGHT-1",
        rule="what a certificate has logged in ends once it is revoked",
        edits=(Edit("revoke_certificate", "*ended", ""),),
        hunters=(f"{PLANS}::test_what_a_certificate_has_logged_in_ends_once_it_is_revoked_and_nothing_else",),
        unseen=NOBODY,
    ),
    Mutant(
        name="a login by a certificate that is revoked meanwhile",
        invariant="INV-RIGHT-1",
        rule="a login by a certificate is written only while the certificate is not revoked",
        edits=(Edit("record_login_by_certificate", "check_not_revoked(caller, catalog)", "pass"),),
        hunters=(f"{LOGINS}::test_a_certificate_that_is_revoked_while_its_login_is_under_way_logs_nobody_in",),
        unseen=NOBODY,
    ),
    Mutant(
        name="a user opened by the certificate of who had the name",
        invariant="INV-RIGHT-1",
        rule="a certificate that somebody else may have from before logs nobody in",
        edits=(
            Edit(
                "record_login_by_certificate",
                "is_too_old(name_of_client(caller.name), caller.begins_s, catalog)",
                "False",
            ),
        ),
        hunters=(f"{NAMES}::test_who_gets_a_name_is_not_opened_by_the_certificate_of_who_had_it",),
        unseen=NOBODY,
    ),
    Mutant(
        name="a dropped user whose certificates stay",
        invariant="INV-RIGHT-1",
        rule="a drop notes that somebody may have a certificate of the name",
        edits=(Edit("remove_principal", "(given_up(found.name),)", "()"),),
        hunters=(f"{NAMES}::test_who_gets_a_name_is_not_opened_by_the_certificate_of_who_had_it",),
        unseen=NOBODY,
    ),
    Mutant(
        name="a renamed user whose certificates stay",
        invariant="INV-RIGHT-1",
        rule="another name of a user notes that somebody may have a certificate of the old one",
        edits=(Edit("rename_principal", "(given_up(found.name),)", "()"),),
        hunters=(f"{NAMES}::test_who_gets_a_name_is_not_opened_by_the_certificate_of_who_had_it",),
        unseen=NOBODY,
    ),
    Mutant(
        name="a login by a certificate that has ended",
        invariant="INV-RIGHT-1",
        rule="a certificate that was shown before its end logs nobody in after it",
        edits=(Edit("record_login_by_certificate", "caller.ends_s * 1_000_000 <= wall_us", "False"),),
        hunters=(f"{LOGINS}::test_a_certificate_that_has_ended_since_it_was_shown_logs_nobody_in",),
        unseen=NOBODY,
    ),
    Mutant(
        name="logins left after certificates are off",
        invariant="INV-RIGHT-1",
        rule="what certificates have logged in ends once they are off",
        edits=(Edit("set_certificate", "*ended", ""),),
        hunters=(
            f"{PLANS}::test_certificates_off_ends_what_they_have_logged_in_and_nothing_else",
            f"{WORLD}::test_what_a_certificate_has_opened_ends_when_certificates_are_off",
        ),
        unseen=NOBODY,
    ),
    Mutant(
        name="secrets that others can read",
        invariant="INV-RIGHT-1",
        rule="a file with a secret that other users can read is not used",
        edits=(Edit("private_files._check_access", "found.st_mode & forbidden", "0"),),
        hunters=(
            "tests/unit/client/test_credentials.py::test_a_file_that_others_can_read_is_refused",
            "tests/unit/wire/test_cluster_key.py::test_a_key_that_others_can_open_is_refused",
        ),
        unseen="a random cluster has no files of credentials",
    ),
)
