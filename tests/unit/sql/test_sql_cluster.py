"""ALTER CLUSTER SET: what is read, and what is refused with which words."""

import pytest

from leasehold.core.words.statements import AlterCluster, AlterNode, Rebalance, RevokeCertificate
from leasehold.errors import BadStatement, ExitCode, Refused
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.sql.parse import parse
from tests.unit.sql.rendering import render


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("ALTER CLUSTER SET lease_duration = '2s'", {"lease_duration": 2 * SECOND_NS}),
        ("ALTER CLUSTER SET lease_duration = '2 seconds'", {"lease_duration": 2 * SECOND_NS}),
        (
            "ALTER CLUSTER SET lease_duration = INTERVAL 2 SECONDS, min_in_sync = 1",
            {"lease_duration": 2 * SECOND_NS, "min_in_sync": 1},
        ),
        (
            "alter cluster set LEASE_DURATION='1m30s',\n `lease_margin` = '300ms' ; -- both",
            {"lease_duration": 90 * SECOND_NS, "lease_margin": 300 * MILLISECOND_NS},
        ),
        ("ALTER CLUSTER SET min_in_sync = 2", {"min_in_sync": 2}),
        ("ALTER CLUSTER SET rebalance = 'AUTO', min_in_sync = 1", {"rebalance": 1, "min_in_sync": 1}),
        ("ALTER CLUSTER SET min_in_sync = 'Auto'", {"min_in_sync": 0}),
        (
            "ALTER CLUSTER SET catch_up_difference = 7, retention = '2h', retention_revisions = 1000",
            {"catch_up_difference": 7, "retention": 7200 * 10**9, "retention_revisions": 1000},
        ),
        ("ALTER CLUSTER SET min_in_sync = '2', lease_margin = '100ms'", {"min_in_sync": 2, "lease_margin": 10**8}),
    ],
)
def test_accepted(text: str, settings: dict[str, int]) -> None:
    statement = parse(text)
    assert statement == AlterCluster(settings=settings)
    assert parse(render(statement)) == statement


def test_the_canonical_spelling() -> None:
    assert render(parse("ALTER CLUSTER SET min_in_sync = 'AUTO'")) == "ALTER CLUSTER SET min_in_sync = 'auto'"
    statement = parse("alter cluster set min_in_sync='1', Lease_Duration = '120000ms'")
    assert render(statement) == "ALTER CLUSTER SET lease_duration = '2m', min_in_sync = 1"


@pytest.mark.parametrize("name", ["node-1", "a.b-3", "7", "drain", "n_1.example.com", "1e5", "undrain"])
def test_a_node_has_a_name_with_dots_and_dashes_or_a_number(name: str) -> None:
    for written in (name, f"'{name}'", f"`{name}`"):
        assert parse(f"ALTER NODE {written} DRAIN") == AlterNode(node=name, drains=True)
        assert parse(f"alter node {written} undrain;") == AlterNode(node=name, drains=False)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("ALTER NODE", "something is missing"),
        ("ALTER NODE DRAIN", "name or number"),
        ("ALTER NODE -n DRAIN", "name or number"),
        ("ALTER NODE a b DRAIN", "name or number"),
        ("ALTER NODE '' DRAIN", "name or number"),
        ("ALTER NODE n STOP", "'DRAIN' or 'UNDRAIN' is expected"),
        ("ALTER NODE n", "'DRAIN' or 'UNDRAIN' is expected"),
        (f"ALTER NODE {'n' * 64} DRAIN", "name or number"),
    ],
)
def test_what_is_no_name_of_a_node(text: str, what: str) -> None:
    with pytest.raises(BadStatement) as caught:
        parse(text)
    assert what in caught.value.text
    assert "ALTER NODE name DRAIN | UNDRAIN" in caught.value.hint


def refused(text: str) -> Refused:
    with pytest.raises(Refused) as caught:
        parse(text)
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.REFUSED
    return caught.value


@pytest.mark.parametrize(
    ("setting", "code", "said"),
    [
        ("lease_duration = '1599999999ns'", "BAD_SETTING", "1s600ms to 10m"),
        ("lease_duration = '0s'", "BAD_SETTING", "its range is"),
        ("lease_duration = '10m1ns'", "BAD_SETTING", "10m1ns"),
        ("lease_duration = 'abc'", "BAD_SETTING", "'abc' is not a duration"),
        ("lease_duration = ''", "BAD_SETTING", "is not a duration"),
        ("lease_duration = '5'", "BAD_SETTING", "'5' is not a duration"),
        ("lease_duration = '-5s'", "BAD_SETTING", "'-5s' is not a duration"),
        ("lease_duration = '2S'", "BAD_SETTING", "is not a duration"),
        ("lease_duration = 'true'", "BAD_SETTING", "is not a duration"),
        ("lease_duration = '99999999999d'", "BAD_SETTING", "too long"),
        ("lease_duration = 5", "BAD_SETTING", "a unit in quotes, and not '5'"),
        ("lease_margin = '99ms'", "BAD_SETTING", "100ms to 10s"),
        ("lease_margin = '10001ms'", "BAD_SETTING", "100ms to 10s"),
        ("min_in_sync = 0", "BAD_SETTING", "min_in_sync can't be 0: its range is 1 to 7 or 'auto'"),
        ("min_in_sync = auto", "BAD_STATEMENT", "a value is a text in quotes"),
        ("catch_up_difference = 'auto'", "BAD_SETTING", "not a whole number"),
        ("min_in_sync = 8", "BAD_SETTING", "1 to 7"),
        ("min_in_sync = 1.5", "BAD_SETTING", "'1.5' is not a whole number"),
        ("min_in_sync = 1e3", "BAD_SETTING", "not a whole number"),
        ("min_in_sync = '2s'", "BAD_SETTING", "not a whole number"),
        ("min_in_sync = '\u0662'", "BAD_SETTING", "not a whole number"),
        ("min_in_sync = " + "9" * 5_000, "BAD_SETTING", "not a whole number"),
        ("lease_length = '2s'", "NO_SUCH_SETTING", "lease_length"),
        ("catch_up_difference = 0", "BAD_SETTING", "1 to 1000000"),
        ("retention = '999ms'", "BAD_SETTING", "1s to 30d"),
        ("retention = 3600", "BAD_SETTING", "a number with a unit"),
        ("retention_revisions = 99", "BAD_SETTING", "100 to 100000000"),
        ("rebalance = 'always'", "BAD_SETTING", "rebalance can't be 'always'"),
        ("rebalance = 1", "BAD_SETTING", "write rebalance = 'manual' or 'auto'"),
        ("rebalancing = 'yes'", "FIXED_SETTING", "ALTER CLUSTER REBALANCE begins one"),
        ("clock_drift = '1%'", "FIXED_SETTING", "clock_drift"),
        ("Largest_Lease = '2s'", "FIXED_SETTING", "follows lease_duration"),
        ("generation = 2", "FIXED_SETTING", "leasehold recover"),
        ("lease_margin = '1s', LEASE_MARGIN = '1s'", "SETTING_TWICE", "lease_margin is set twice"),
        ("lease_duration = -5", "BAD_STATEMENT", "near '-'"),
        ("lease_duration = TRUE", "BAD_STATEMENT", "near 'TRUE'"),
        ("lease_duration = 2s", "BAD_SETTING", "a unit in quotes"),
        ("min_in_sync = 2s", "BAD_STATEMENT", "',' is expected"),
        ("lease_duration = NULL", "BAD_STATEMENT", "near 'NULL'"),
        ("lease_duration = ('2s')", "BAD_STATEMENT", "near '('"),
        ("lease_duration '2s'", "BAD_STATEMENT", "'=' is expected"),
        ("lease_duration = '2s' lease_margin = '1s'", "BAD_STATEMENT", "',' is expected"),
        ("lease_duration = '2s',", "BAD_STATEMENT", "at the end"),
        ("lease_duration =", "BAD_STATEMENT", "at the end"),
        ("lease_duration", "BAD_STATEMENT", "at the end"),
        ("", "BAD_STATEMENT", "at the end"),
        ("'lease_duration' = '2s'", "BAD_STATEMENT", "name of a setting"),
        ("lease.duration = '2s'", "NO_SUCH_SETTING", "'lease'"),
        (", lease_duration = '2s'", "BAD_STATEMENT", "name of a setting"),
    ],
)
def test_refused(setting: str, code: str, said: str) -> None:
    error = refused(f"ALTER CLUSTER SET {setting}")
    assert error.code == code, error.text
    assert said in f"{error.text} {error.hint}"


@pytest.mark.parametrize("text", ["ALTER CLUSTER", "ALTER CLUSTER lease_duration = '2s'", "ALTER CLUSTER x SET a = 1"])
def test_refused_without_set(text: str) -> None:
    error = refused(text)
    assert (error.code, error.hint) == (
        "BAD_STATEMENT",
        (
            "ALTER CLUSTER SET setting = value, .. | REBALANCE | STOP REBALANCE | REVOKE CERTIFICATE 'serial'"
            " | UNREVOKE CERTIFICATE 'serial'"
        ),
    )


def test_rebalances() -> None:
    assert parse("alter cluster rebalance;") == Rebalance(stops=False)
    assert parse("ALTER CLUSTER STOP REBALANCE") == Rebalance(stops=True)
    assert "'REBALANCE' is expected" in refused("ALTER CLUSTER STOP").text
    assert refused("ALTER CLUSTER REBALANCE 'auto'").code == "BAD_STATEMENT"


def test_an_unknown_name_is_told_which_there_are() -> None:
    assert "lease_duration, lease_margin, leadership_duration" in refused("ALTER CLUSTER SET x = 1").hint


@pytest.mark.parametrize("written", ["1F", "01f", "00:1f", "0000000000000000000000000000000000000000000001f"])
def test_a_serial_number_is_written_as_tools_show_it(written: str) -> None:
    assert parse(f"ALTER CLUSTER REVOKE CERTIFICATE '{written}'") == RevokeCertificate(serial="1f", revokes=True)
    assert parse(f"alter cluster unrevoke certificate '{written}';") == RevokeCertificate(serial="1f", revokes=False)


@pytest.mark.parametrize("written", ["''", "'0'", "'1g'", "'1f '", f"'{'f' * 41}'", "1f"])
def test_what_is_no_serial_number_is_refused(written: str) -> None:
    with pytest.raises(BadStatement):
        parse(f"ALTER CLUSTER REVOKE CERTIFICATE {written}")
