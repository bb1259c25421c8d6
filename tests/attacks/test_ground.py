"""The ground of the attacks notices what it is there for."""

import pytest

from tests.attacks.ground import Ground

pytestmark = pytest.mark.processes


def test_nothing_is_found_where_nothing_attacks(ground: Ground) -> None:
    with ground.attacked():
        pass


def test_memory_that_several_attacks_keep_is_noticed(ground: Ground) -> None:
    with pytest.raises(AssertionError, match="since the first attack"), ground.attacked(grown_by_all_max=-(1 << 40)):
        pass


def test_a_node_that_was_fenced_is_noticed(ground: Ground) -> None:
    with pytest.raises(AssertionError, match="a node was fenced"), ground.attacked(starved_share=0):
        name = ground.cluster.names()[-1]
        ground.cluster.kill(name)
        ground.cluster.restart(name)
    ground.cluster.wait_until_active()
