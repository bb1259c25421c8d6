"""Five coordinators over one store."""

from collections import Counter
from pathlib import Path

import pytest

from leasehold.client.locate import read_cluster_file
from leasehold.core.words.messages import Rows
from leasehold.local.etcd import PROGRAM_VARIABLE
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.several_coordinators import committed, present_leader
from tests.e2e.waiting import wait_until
from tests.etcd_cluster import etcd_program

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


@pytest.mark.long
def test_five_coordinators_go_on_without_any_two_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROGRAM_VARIABLE, str(etcd_program()))
    names = [f"coordinator-{number}" for number in range(1, 6)]
    with RunningCluster.start(tmp_path / "cluster", nodes=1, coordinators=5, meta="etcd") as five:
        assert list(read_cluster_file(five.directory).coordinators) == names
        committed(five, "CREATE DATABASE d")
        killed: list[str] = []
        for number in range(2):
            killed.append(present_leader(five))
            five.kill(killed[-1])
            committed(five, f"CREATE TABLE d.t{number} (a INT)")
        assert len(set(killed)) == 2
        assert leasehold("up", "--detach", directory=five.directory, timeout=120).code == 0

        def roles() -> Counter[str]:
            with five.connect() as client:
                shown = client.sql("SHOW COORDINATORS")
            assert isinstance(shown, Rows)
            assert sorted(str(row[0]) for row in shown.rows) == names
            return Counter(str(row[2]) for row in shown.rows)

        wait_until(lambda: roles() == {"LEADER": 1, "FOLLOWER": 4})
