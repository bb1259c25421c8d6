"""Who attacks: somebody without a certificate; in `make soak` also somebody with one, and somebody where TLS is off."""

import resource
from collections.abc import Iterator

import pytest

from leasehold.certificates.files import CA
from leasehold.client.trust import CLIENT_FOLDER, TLS_FOLDER
from tests.attacks.ground import MORE_CONNECTIONS, Ground


@pytest.fixture
def many_files() -> Iterator[None]:
    """So that this process may open more connections than a port takes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * MORE_CONNECTIONS)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="session")
def ground_with_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with Ground.start(tmp_path_factory.mktemp("attacked") / "cluster", tls=True) as made:
        yield made


@pytest.fixture(
    scope="session",
    params=[
        CA,
        *(pytest.param(one, marks=[pytest.mark.long, pytest.mark.timeout(900)]) for one in (CLIENT_FOLDER, "")),
    ],
    ids=["stranger", "certified", "plain"],
)
def ground(request: pytest.FixtureRequest) -> Ground:
    """The ground, attacked by somebody who has these files."""
    files = str(request.param)
    if not files:
        plain: Ground = request.getfixturevalue("ground_without_tls")
        return plain
    made: Ground = request.getfixturevalue("ground_with_tls")
    return made.attacked_by(made.directory / TLS_FOLDER / files)
