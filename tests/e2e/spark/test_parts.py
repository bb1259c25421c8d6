"""What needs no Spark session: how segments are shared out, where a cluster is looked for, which Java will do."""

import os
import subprocess
from pathlib import Path

import pytest
from pyspark import java_gateway

from leasehold.core.words.records import SegmentRecord
from leasehold.errors import BadSettings
from leasehold.ids import BucketNumber, NodeId, ObjectId, SchemaVersion, SegmentId
from leasehold.limits.clients import SCAN_PARTITION_BYTES, SCAN_PARTITIONS_MAX, SCAN_PARTITIONS_MIN
from leasehold.spark.reader import share_out
from leasehold.spark.sessions import session, started_without_fork
from leasehold.spark.source import anchored


def segment(number: int, size_bytes: int) -> SegmentRecord:
    return SegmentRecord(
        id=SegmentId(f"{0:032x}-{number:032x}"),
        table=ObjectId(1),
        bucket=BucketNumber(0),
        schema_version=SchemaVersion(1),
        rows=1,
        size_bytes=size_bytes,
        sha256=b"",
        statistics=(),
        holders=(NodeId(1),),
    )


def test_no_segments_are_no_shares() -> None:
    assert share_out([]) == []


@pytest.mark.parametrize("count", [1, 3, SCAN_PARTITIONS_MIN, 50])
def test_small_segments_are_shared_by_a_few_tasks(count: int) -> None:
    segments = [segment(number, 1_000) for number in range(count)]

    shares = share_out(segments)

    assert len(shares) == min(count, SCAN_PARTITIONS_MIN)
    assert sorted(one.id for share in shares for one in share) == [one.id for one in segments]
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_large_segments_are_spread_by_their_size() -> None:
    segments = [
        segment(0, SCAN_PARTITION_BYTES * 4),
        *(segment(number, SCAN_PARTITION_BYTES) for number in range(1, 5)),
    ]

    shares = share_out(segments)

    assert shares[0] == (segments[0],)
    assert len(shares) == len(segments)


def test_no_share_is_empty_and_there_are_never_too_many() -> None:
    segments = [segment(number, SCAN_PARTITION_BYTES) for number in range(SCAN_PARTITIONS_MAX + 10)]

    shares = share_out(segments)

    assert len(shares) == SCAN_PARTITIONS_MAX
    assert all(shares)


def test_a_directory_is_anchored_and_an_address_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert anchored("some-cluster") == f"{tmp_path}/some-cluster"
    assert anchored(tmp_path) == str(tmp_path)
    assert anchored("127.0.0.1:7000") == "127.0.0.1:7000"
    assert anchored("a/b:7000") == f"{tmp_path}/a/b:7000"


def test_without_java_the_session_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(BadSettings, match="no Java was found") as caught:
        session()
    assert "apt-get install openjdk-17-jre-headless" in caught.value.hint
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(BadSettings, match=r"no Java was found in JAVA_HOME, /nowhere"):
        session()


@pytest.mark.parametrize(("text", "major"), [('version "1.8.0_402"', 8), ('version "11.0.2" 2019-01-15', 11)])
def test_an_old_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, major: int) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk {text}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(BadSettings, match=f"is Java {major}"):
        session()
    assert os.environ["JAVA_HOME"] == str(tmp_path)


def test_java_is_started_without_code_between_fork_and_exec(tmp_path: Path) -> None:
    """gRPC's handlers in a fork abort the child now and then; the JVM is what PySpark forks for."""
    marker = tmp_path / "forked"

    with started_without_fork():
        child = java_gateway.Popen(["cat"], stdin=subprocess.PIPE, preexec_fn=marker.touch)
    with child:
        group = os.getpgid(child.pid)

    assert child.returncode == 0
    assert group == child.pid != os.getpgid(0)
    assert not marker.exists()
    assert java_gateway.Popen is subprocess.Popen
