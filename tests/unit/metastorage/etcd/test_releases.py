"""Which releases of etcd are refused, and which are warned about."""

import pytest

from leasehold.metastorage.etcd.releases import can_read_stale, check_release, release_warning
from leasehold.metastorage.log.store import StoreUnsuitable


@pytest.mark.parametrize(
    "version",
    ["2.3.8", "3.0.0", "3.3.27", "3.5.0", "3.5.5", "3.5.0-rc.1", "", "zookeeper", "3.5", "3.6.x", "3.5.6.7", "v3.6.9"],
)
def test_a_refused_release(version: str) -> None:
    with pytest.raises(StoreUnsuitable, match="h1:2379") as caught:
        check_release("h1:2379", version)
    assert "upgrade" in caught.value.hint


@pytest.mark.parametrize(
    ("version", "warning"),
    [
        ("3.4.0", "no longer maintained"),
        ("3.4.45", "no longer maintained"),
        ("3.5.6", "upgrade it to 3.5.28"),
        ("3.5.27", "upgrade it to 3.5.28"),
        ("3.5.28", None),
        ("3.5.33", None),
        ("3.6.0", "upgrade it to 3.6.9"),
        ("3.6.0-rc.3", "upgrade it to 3.6.9"),
        ("3.6.8", "upgrade it to 3.6.9"),
        ("3.6.9", None),
        ("3.6.14+git", None),
        ("3.7.1", None),
        ("4.0.0", None),
        ("10.0.0", None),
    ],
)
def test_an_accepted_release_and_its_warning(version: str, warning: str | None) -> None:
    check_release("h1:2379", version)
    found = release_warning("m1", "h1:2379", version)
    if warning is None:
        assert found == ""
    else:
        assert found.startswith(f"etcd {version} of m1 at h1:2379 ")
        assert warning in found


@pytest.mark.parametrize("version", ["3.4.0", "3.4.41", "3.5.6", "3.5.27", "3.6.0-rc.3", "3.6.8", "unknown"])
def test_a_release_whose_reads_can_be_stale(version: str) -> None:
    assert can_read_stale(version)


@pytest.mark.parametrize("version", ["3.4.42", "3.5.28", "3.6.9", "3.6.14+git", "3.7.0", "4.0.0"])
def test_a_release_whose_reads_are_linearizable(version: str) -> None:
    assert not can_read_stale(version)
