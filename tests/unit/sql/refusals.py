"""How a text is refused."""

import pytest

from leasehold.errors import ExitCode, Refused
from leasehold.sql.parse import parse


def refused(text: str, code: str, *said: str) -> Refused:
    """The error that `text` is refused with; it has this code, and says all that is expected of it."""
    with pytest.raises(Refused) as caught:
        parse(text)
    error = caught.value
    assert error.code == code, error.text
    for part in said:
        assert part in error.text
    assert error.hint
    assert error.exit_code is ExitCode.REFUSED
    assert len(error.text) < 500
    return error
