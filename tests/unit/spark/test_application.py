"""What the driver of an application knows of its network."""

import pytest

from leasehold.spark.application import is_in_the_clear

ON = ("spark.authenticate", "spark.network.crypto.enabled")


@pytest.mark.parametrize(
    ("settings", "is_clear"),
    [
        ({}, True),
        ({ON[0]: "true"}, True),
        ({ON[1]: "true"}, True),
        ({ON[0]: "true", ON[1]: "TRUE"}, False),
        ({"spark.ssl.rpc.enabled": "true"}, False),
        ({"spark.ssl.enabled": "true"}, True),
        ({"spark.ssl.rpc.enabled": "false"}, True),
    ],
)
def test_a_network_is_in_the_clear_unless_spark_is_told_otherwise(settings: dict[str, str], is_clear: bool) -> None:
    assert is_in_the_clear(settings.get) is is_clear
