"""Breaks of the limits of delegated logins."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

RIGHTS = "tests/unit/core/access/test_request_rights.py"
UNIT = "tests/unit/core/access/test_delegation.py"
PEOPLE = "tests/unit/coordinator/people/test_delegated_logins.py"
WORLD = "tests/sim/test_delegated.py"
OPENS = f"{WORLD}::test_a_delegated_login_opens_one_table_to_read_or_to_write_and_nothing_else"
NODE = f"{UNIT}::test_a_node_takes_it_for_its_table_its_views_and_its_transaction"
REQUEST = f"{UNIT}::test_a_delegated_login_is_for_the_rows_of_its_table_alone"
NOBODY = "no client of a random cluster has a delegated login"


def _mutant(name: str, rule: str, edit: Edit, *hunters: str) -> Mutant:
    return Mutant(name=name, invariant="INV-RIGHT-1", rule=rule, edits=(edit,), hunters=hunters, unseen=NOBODY)


MUTANTS = (
    Mutant(
        name="a login that nodes see",
        invariant="INV-RIGHT-1",
        rule="nodes are shown a hash of a login, which coordinators do not take",
        edits=(Edit("node_login", 'hashlib.sha256(b"node login " + login.encode()).hexdigest()[:32]', "login"),),
        hunters=(f"{RIGHTS}::test_what_a_node_has_seen_of_a_login_says_nothing_to_a_coordinator",),
    ),
    _mutant(
        "a delegated login that runs statements",
        "only requests that know of limits take a delegated login",
        Edit("user_by", "asker.limits is not None", "False"),
        f"{UNIT}::test_it_runs_no_statement",
    ),
    _mutant(
        "delegated logins that are written anew with each renewal",
        "a renewal changes nothing that was renewed a moment ago",
        Edit("delegated_logins_renewed", "grown_us >= DELEGATED_RENEW_NS // 2_000", "grown_us > 0"),
        f"{UNIT}::test_that_of_an_application_expires_soon_and_is_renewed_for_a_day",
    ),
    _mutant(
        "requests beyond the limits of a delegated login",
        "a coordinator compares each request with the limits of the login",
        Edit("check_request", "check_within(asker, request, catalog)", ""),
        REQUEST,
        OPENS,
    ),
    _mutant(
        "scans beyond the limits of a delegated login",
        "a node compares each scan with the limits of the login",
        Edit("check_read", "check_scan_within(asker, table, through)", ""),
        NODE,
        OPENS,
    ),
    _mutant(
        "appends beyond the limits of a delegated login",
        "a node compares each append with the limits of the login",
        Edit("check_append", "check_write_within(asker, table, transaction)", ""),
        NODE,
        OPENS,
    ),
    _mutant(
        "a delegated login to write that reads",
        "a login to write in a transaction reads nothing",
        Edit("delegation._reads", "limits.transaction is None", "True"),
        NODE,
        OPENS,
    ),
    _mutant(
        "a delegated login that reads without its views",
        "a login to read through views reads through just these",
        Edit("delegation._reads", "(table, through) == (limits.table, limits.through)", "table == limits.table"),
        NODE,
    ),
    _mutant(
        "a delegated login that writes in any transaction",
        "a login to write is for one write transaction",
        Edit(
            "delegation._writes", "(table, transaction) == (limits.table, limits.transaction)", "table == limits.table"
        ),
        NODE,
        REQUEST,
    ),
    _mutant(
        "a delegated login that replaces rows",
        "a login to write adds rows, and takes none away",
        Edit("delegation._is_within", "(limits.replaces or not takes_rows)", "True"),
        REQUEST,
    ),
    _mutant(
        "a delegated login without the right",
        "who asks for a login to read needs the right to read",
        Edit("check_request", "_check_selected(user, catalog.tables.get(table), catalog)", ""),
        f"{UNIT}::test_its_user_needs_the_rights_at_each_moment",
    ),
    _mutant(
        "a delegated login that outlives its token",
        "a delegated login ends with the token that its own login came from",
        Edit("record_delegated_login", "by_token=parent.by_token", "by_token=b''"),
        f"{UNIT}::test_its_record_names_what_ends_it",
        f"{WORLD}::test_a_delegated_login_ends_with_what_its_own_login_ends_with",
    ),
    _mutant(
        "a delegated login that outlives certificates",
        "a delegated login ends when certificates of its user are off, if its own login came from one",
        Edit("record_delegated_login", "by_certificate=parent.by_certificate", "by_certificate=False"),
        f"{UNIT}::test_its_record_names_what_ends_it",
    ),
    _mutant(
        "a delegated login without end",
        "a delegated login ends a day after it was made",
        Edit("delegated_logins_expired", "limits.expires_us <= wall_us", "False"),
        f"{UNIT}::test_it_expires_after_a_day",
    ),
    _mutant(
        "a delegated login that outlives a killed driver",
        "a delegated login of an application expires soon, unless its driver renews it",
        Edit(
            "record_delegated_login",
            "wall_us + DELEGATED_TTL_NS // 1_000 if request.application else last_us",
            "last_us",
        ),
        f"{UNIT}::test_that_of_an_application_expires_soon_and_is_renewed_for_a_day",
        f"{PEOPLE}::test_the_logins_of_a_driver_that_was_killed_end_soon_whoever_leads",
    ),
    _mutant(
        "a delegated login that is renewed for ever",
        "no renewal lets a delegated login live longer than a day",
        Edit(
            "delegated_logins_renewed",
            "min(wall_us + DELEGATED_TTL_NS // 1_000, record.limits.last_us)",
            "wall_us + DELEGATED_TTL_NS // 1_000",
        ),
        f"{UNIT}::test_that_of_an_application_expires_soon_and_is_renewed_for_a_day",
    ),
    _mutant(
        "a delegated login that outlives its driver",
        "a driver that stops ends the delegated logins of its application",
        Edit("Logins.renew", "return logins_ended(delegated_logins(application, catalog), catalog)", "return ()"),
        f"{PEOPLE}::test_a_driver_keeps_the_logins_of_its_application_and_ends_them",
    ),
    _mutant(
        "a delegated login for a transaction of another table",
        "a login to write is made for a transaction that is open on its table",
        Edit("check_delegation", "record.table != request.table", "False"),
        f"{UNIT}::test_a_transaction_has_to_be_open_on_the_table_and_views_are_bounded",
    ),
)
