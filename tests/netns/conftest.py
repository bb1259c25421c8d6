"""One network of namespaces and one cluster in it for all of these tests, which leave it as they found it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.netns.cluster import NetworkCluster
from tests.netns.hosts import Hosts, Unavailable, check_available


@pytest.fixture(scope="package")
def namespaces_available() -> None:
    """Skips where they are not, and says why."""
    try:
        check_available()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def two(namespaces_available: None) -> Iterator[Hosts]:
    """Two hosts with nothing on them."""
    with Hosts("one", "other") as hosts:
        yield hosts


@pytest.fixture(scope="package")
def shared(namespaces_available: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkCluster]:
    """One cluster for all tests, since it takes seconds to start."""
    with NetworkCluster(tmp_path_factory.mktemp("netns") / "cluster") as cluster:
        cluster.run("CREATE DATABASE d")
        make_table(cluster, "d.first")
        yield cluster


@pytest.fixture
def cluster(shared: NetworkCluster) -> Iterator[NetworkCluster]:
    """The cluster, whole: every node serves when a test begins, and again when it has ended; and whatever happened,
    no node has released anything stale."""
    shared.wait_until_whole()
    try:
        yield shared
    finally:
        shared.heal()
    shared.wait_until_whole()
    verified = shared.verify()
    assert verified["stale_serves"] == 0, verified
    assert verified["batches"] > 0


@pytest.fixture
def table(cluster: NetworkCluster, request: pytest.FixtureRequest) -> str:
    """A table of 100 rows that every node holds whole."""
    name = "d." + re.sub(r"\W+", "_", request.node.name)
    make_table(cluster, name)
    return name


def make_table(cluster: NetworkCluster, name: str) -> None:
    columns = "(a BIGINT, b STRING) CLUSTERED BY (a) INTO 1 BUCKETS"
    cluster.run(f"CREATE TABLE {name} {columns} TBLPROPERTIES ('replication' = '{len(cluster.nodes)}')")
    rows = {"a": list(range(100)), "b": [f"row {number}" for number in range(100)]}
    cluster.append(name, rows)
    assert cluster.rows(name) == rows


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests of one store behind each other: pytest goes to and fro where tests have other parameters beside,
    and starts the same cluster again and again."""
    places = [place for place, item in enumerate(items) if _store_of(item) is not None]
    by_store = sorted((items[place] for place in places), key=lambda item: str(_store_of(item)))
    for place, item in zip(places, by_store, strict=True):
        items[place] = item


def _store_of(item: pytest.Item) -> str | None:
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return parameters.get("shared") if item.path.parent == Path(__file__).parent else None
