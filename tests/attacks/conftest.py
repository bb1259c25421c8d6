"""One cluster for all attacks: what they leave behind is part of what has to be borne."""

from collections.abc import Iterator

import pytest

from tests.attacks.ground import LONG_SCALE, Ground


@pytest.fixture(scope="session")
def ground_without_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Three nodes, users, a table with rows, and an honest client."""
    with Ground.start(tmp_path_factory.mktemp("attacked") / "cluster") as made:
        yield made


@pytest.fixture(scope="session")
def ground(ground_without_tls: Ground) -> Ground:
    """Where nothing but the proofs of the messages keeps a stranger out."""
    return ground_without_tls


@pytest.fixture(params=[1, pytest.param(LONG_SCALE, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def scale(request: pytest.FixtureRequest) -> int:
    """By what to multiply the size of an attack: 1 in `make test`, ten times that in `make soak`."""
    return int(request.param)
