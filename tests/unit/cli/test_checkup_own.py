"""What `leasehold doctor` finds on the machine of a process."""

import resource
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.certificate_words import issued
from tests.unit.cli.finding_words import is_wrong

from leasehold.cli.checkup import own
from leasehold.cli.checkup.finding import HostFinding
from leasehold.cli.config import NodeConfig, coordinator_config, node_config
from leasehold.local.files import write_address
from leasehold.vault.store import FILE_NAME as VAULT
from leasehold.wire import cluster_key


def node(directory: Path, **given: Any) -> NodeConfig:
    return node_config(None, {"dir": directory / "node-1", **given})


def test_a_directory_that_is_there_or_can_be_made(tmp_path: Path) -> None:
    assert own.check_directory(node(tmp_path)).text.endswith("can be made")
    assert own.check_directory(node(tmp_path / "not" / "yet")).ok
    (tmp_path / "node-1").mkdir()
    assert own.check_directory(node(tmp_path)).text == str(tmp_path / "node-1")
    assert {one.name for one in tmp_path.iterdir()} == {"node-1"}, "nothing was made"


def test_a_directory_that_no_process_can_use(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    is_wrong(own.check_directory(node(tmp_path / "file")), "is not a directory", "--dir")
    (tmp_path / "node-1" / "segments").mkdir(parents=True)
    (tmp_path / "node-1" / "segments" / "x").write_text("")
    is_wrong(own.check_directory(node(tmp_path)), "no vault", "another --dir")
    (tmp_path / "node-1" / VAULT).write_text("")
    other = coordinator_config(None, {"dir": tmp_path / "node-1"})
    is_wrong(own.check_directory(other), "of a node")


def test_its_certificate(tmp_path: Path) -> None:
    pki = issued(tmp_path / "pki")
    finding, tls = own.check_certificate(node(tmp_path))
    assert finding.ok
    assert tls is None
    finding, tls = own.check_certificate(node(tmp_path, tls=pki / "node-1"))
    assert finding.text.startswith("node node-1, valid until 2")
    assert tls is not None
    for bundle, why in (("node-2", "this is node node-1"), ("ann", "not of a node"), ("nobody", "nobody")):
        finding, tls = own.check_certificate(node(tmp_path, tls=pki / bundle))
        is_wrong(finding, why)
        assert tls is None


def test_its_cluster_key(tmp_path: Path) -> None:
    file = tmp_path / "key"
    is_wrong(own.check_key(node(tmp_path))[0], "nothing proves", "--cluster-key FILE")
    assert own.check_key(node(tmp_path, tls=tmp_path / "tls"))[0].ok
    is_wrong(own.check_key(node(tmp_path, cluster_key=file))[0], "No such file")
    cluster_key.generate(file)
    assert own.check_key(node(tmp_path, cluster_key=file))[1] == cluster_key.read(file)
    file.chmod(0o644)
    is_wrong(own.check_key(node(tmp_path, cluster_key=file))[0], "0644", "chmod go-rwx")


def test_where_it_listens(tmp_path: Path) -> None:
    config = node(tmp_path)
    config.directory.mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        is_wrong(own.check_listening(node(tmp_path, listen=address)), "another process listens there")
        write_address(config.directory, address)
        assert "by this process" in own.check_listening(node(tmp_path, listen=address)).text
    assert own.check_listening(node(tmp_path, listen=address)).text == "free"
    assert "needs one" in own.check_listening(node(tmp_path, listen="[::1]:0")).text
    tls = {"tls": tmp_path, "advertise": "db.example:1"}
    for listen in ("0.0.0.0:0", "[::]:0"):
        assert own.check_listening(node(tmp_path, listen=listen, **tls)).ok
    is_wrong(own.check_listening(node(tmp_path, listen="192.0.2.1:0", tls=tmp_path)), "192.0.2.1")
    is_wrong(own.check_listening(node(tmp_path, listen="10.0.0.1:0")), "without TLS")


def test_what_it_advertises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"db1.example": ["10.0.0.1", "2001:db8::1"], "here.example": ["127.0.1.1"]}
    monkeypatch.setattr(own, "look_up", lambda name: known.get(name, []))

    def found(advertise: str | None, listen: str = "10.0.0.1:7410") -> list[HostFinding]:
        return list(own.check_advertised(node(tmp_path, advertise=advertise, listen=listen, tls=tmp_path)))

    assert found(None) == []
    assert [one.text for one in found("db1.example:7410")] == ["10.0.0.1, 2001:db8::1"]
    assert found("10.0.0.1:0")[0].ok
    assert found("localhost:0", listen="127.0.0.1:0")[0].ok
    is_wrong(found("db2.example:7410")[0], "db2.example is not known", "DNS")
    is_wrong(found("here.example:7410")[0], "127.0.1.1", "/etc/hosts")
    is_wrong(found("localhost:7410")[0], "127.0.0.1")


def test_how_many_files_it_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    for hard, ok in ((own.FILES_MIN, True), (resource.RLIM_INFINITY, True), (own.FILES_MIN - 1, False)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, hard=hard: (1, hard))
        finding = own.check_open_files()
        assert finding.ok is ok
        assert bool(finding.hint) is not ok
