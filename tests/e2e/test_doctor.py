"""`leasehold doctor`, for processes that run and for one that will."""

import json
from pathlib import Path

import pytest

from leasehold.local.files import GOSSIP_FILE, read_address
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold

pytestmark = pytest.mark.processes


def written(cluster: RunningCluster, name: str, **more: object) -> Path:
    """The configuration of a process, as it runs or, of another name, as it will."""
    directory, key = cluster.directory / name, cluster.directory / "cluster.key"
    coordinator = cluster.directory / "coordinator"
    values: dict[str, object] = {
        "dir": str(directory),
        "cluster_key": str(key),
        "seeds": [(coordinator / GOSSIP_FILE).read_text()],
        "tls": str(cluster.directory / "tls" / name),
    }
    if directory.exists():
        values |= {"listen": read_address(directory), "gossip": (directory / GOSSIP_FILE).read_text()}
    if name != "coordinator":
        values["coordinators"] = [read_address(coordinator)]
    file = cluster.directory.parent / f"{name}.toml"
    file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in (values | more).items()))
    return file


def test_what_runs_well_and_what_does_not(tmp_path: Path) -> None:
    with RunningCluster.start(tmp_path / "cluster", nodes=2, tls=True) as cluster:
        gossip = (cluster.directory / "node-2" / GOSSIP_FILE).read_text()
        well = leasehold("doctor", "--config", str(written(cluster, "node-1")))
        assert well.code == 0, well.out
        assert {line.split()[0] for line in well.out.splitlines()} == {"ok"}
        for said in ("node node-1, valid until", "leads cluster", f"node-2 at {gossip}: both ways", "node node-2 at"):
            assert said in well.out
        assert "trying gossip" in well.err
        of_coordinator = written(cluster, "coordinator", seeds=[gossip])
        leasehold("doctor", "--config", str(of_coordinator)).refused(2, "--node or --coordinator")
        found = leasehold("doctor", "--coordinator", "--config", str(of_coordinator), "-o", "json").json()
        assert found["problems"] == 0, found
        tried = {one["check"].rpartition(" at ")[0] for one in found["findings"]}
        assert {"gossip with node-1", "gossip with node-2", "node node-1", "node node-2"} <= tried
        known = (cluster.directory / "coordinator" / GOSSIP_FILE).read_text()
        before = cluster.local.coordinator.running()
        cluster.kill("node-2")
        cluster.kill("node-1")
        new = written(cluster, "node-3", seeds=["127.0.0.1:9"], listen="127.0.0.1:0")
        ill = leasehold("doctor", "--config", str(new))
        assert ill.code == 1
        wrong = [line for line in ill.out.splitlines() if line.startswith("wrong")]
        assert [line.split(":")[0] for line in wrong] == ["wrong  certificate", "wrong  seed 127.0.0.1"]
        assert f"{len(wrong)} of " in ill.err
        assert not (cluster.directory / "node-3").exists()
        moved = leasehold("doctor", "--config", str(new), LEASEHOLD_SEEDS=known)
        assert "seed 127.0.0.1:9" not in moved.out, "a variable wins over the file"
        assert cluster.local.coordinator.running() == before
