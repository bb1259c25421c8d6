"""The options of `leasehold ca`."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from leasehold.cli.ca import ca, read_days
from leasehold.errors import ExitCode
from leasehold.limits.certificates import CERTIFICATE_DAYS, CERTIFICATE_DAYS_MAX


@pytest.mark.parametrize("days", [1, CERTIFICATE_DAYS, CERTIFICATE_DAYS_MAX])
def test_a_number_of_days_is_in_ascii_digits(days: int) -> None:
    assert read_days(str(days)) == days


@pytest.mark.parametrize(
    "given", ["0", str(CERTIFICATE_DAYS_MAX + 1), "-1", "+1", " 1", "1\n", "1_0", "1.0", "", "x", "\u0663", "9" * 5_000]
)
def test_anything_else_is_refused(given: str, tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter):
        read_days(given)
    for command in (["issue", "ca", "--node", "n", "--to", "b"], ["renew", "ca", "b"]):
        words = [str(tmp_path / one) if one in {"ca", "b"} else one for one in command]
        ran = CliRunner().invoke(ca, [*words, "--days", given])
        assert ran.exit_code == ExitCode.USAGE
        assert "--days" in ran.output
