"""How many connections a server takes."""

import resource
from collections.abc import Generator

import pytest

from leasehold.limits.requests import CONNECTIONS_MAX
from leasehold.wire.connections import connections_max, connections_of_door

FEW = 300


@pytest.fixture
def few_files() -> Generator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_half_of_the_files_are_left_to_the_process() -> None:
    assert connections_max(100, 1) == 50
    assert connections_max(100, 2) == 25, "those of each door are counted by themselves"
    assert connections_max(2 * CONNECTIONS_MAX, 1) == 2 * connections_max(1 << 20, 2) == CONNECTIONS_MAX


@pytest.mark.usefixtures("few_files")
def test_a_server_raises_a_low_soft_limit_of_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    of_door = connections_of_door(1)
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert soft > FEW or soft == hard
    assert of_door <= soft // 2
