"""What a session of Spark is made with."""

import pytest

from leasehold.errors import BadSettings
from leasehold.spark import session


@pytest.mark.parametrize("name", ["password", "user", "sparkling"])
def test_what_is_no_setting_of_spark_is_refused_and_its_value_is_not_told(name: str) -> None:
    with pytest.raises(BadSettings, match=f"{name} does not begin with spark") as caught:
        session("s", **{name: "secret-value"})
    assert "secret-value" not in str(caught.value) + caught.value.hint
