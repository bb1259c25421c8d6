"""TLS: schema changes, writes and reads of a cluster with it beside one without, in turn; connections; renewals."""

import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from bench.ddl import cluster_of, statement
from bench.figures import Figure, Table, median, quantile, ratios, spread, timed_ms
from leasehold.certificates.authority import open_authority, renew
from leasehold.certificates.files import IDENTITY
from leasehold.client.cluster import Cluster
from leasehold.client.trust import CLIENT_FOLDER, TLS_FOLDER
from leasehold.limits.certificates import CERTIFICATE_FILES_LOOK_NS
from leasehold.limits.units import SECOND_NS
from leasehold.local.certificates import AUTHORITY_FOLDER
from leasehold.local.files import read_address
from leasehold.local.process import Process
from leasehold.local.processes import LocalCluster
from leasehold.wire.addresses import split

STATEMENT_AIM_MS: Final = 1.0


class Size(NamedTuple):
    """How much is done: nodes, statements, rounds of a write and a read of so many rows, handshakes, renewals."""

    nodes: int = 3
    statements: int = 300
    rounds: int = 7
    rows: int = 8_000_000
    handshakes: int = 300
    renewals: int = 3


SMALLEST: Final = Size(nodes=1, statements=2, rounds=1, rows=1_000, handshakes=2, renewals=0)


class Side(NamedTuple):
    """One of the two clusters."""

    local: LocalCluster
    client: Cluster


def in_turn(rounds: int, work: Callable[[Cluster, int], object], sides: Sequence[Side]) -> list[list[float]]:
    """The times of each side in ms; each goes first as often as the other."""
    times: list[list[float]] = [[] for _ in sides]
    for number in range(rounds):
        for one in range(len(sides)) if number % 2 else reversed(range(len(sides))):
            times[one].append(timed_ms(partial(work, sides[one].client, number)))
    return times


def statements(count: int, sides: Sequence[Side]) -> list[Figure]:
    secure, plain = in_turn(
        count, lambda client, number: statement(client, f"CREATE TABLE bench.t{number} (a INT)"), sides
    )
    figures = []
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        ours, theirs = quantile(secure, share), quantile(plain, share)
        figures.append(
            Figure(
                what=f"CREATE TABLE, {name}",
                value=f"{ours:.2f} ms",
                peer=f"{theirs:.2f} ms",
                ratio=f"{ours / theirs:.2f}",
                aim=f"at most {STATEMENT_AIM_MS:g} ms more",
                holds=ours - theirs <= STATEMENT_AIM_MS,
            )
        )
    return figures


def rows_of(count: int) -> pa.Table:
    numbers = np.random.default_rng(1).integers(0, 2**62, count)
    return pa.table({"a": numbers, "b": np.sin(numbers)})


def data(size: Size, sides: Sequence[Side]) -> list[Figure]:
    rows = rows_of(size.rows)
    for side in sides:
        statement(side.client, "CREATE TABLE bench.r (a BIGINT, b DOUBLE) CLUSTERED BY (a) INTO 4 BUCKETS")
        statement(side.client, "CREATE TABLE bench.w (a BIGINT, b DOUBLE) CLUSTERED BY (a) INTO 4 BUCKETS")
        side.client.table("bench.r").append(rows)

    def scan(client: Cluster, _: int) -> None:
        assert client.table("bench.r").scan().read_all().num_rows == rows.num_rows

    works = (("append", lambda client, _: client.table("bench.w").append(rows)), ("scan", scan))
    figures = []
    for what, work in works:
        ours, theirs = ([rows.nbytes / 1e3 / ms for ms in times] for times in in_turn(size.rounds, work, sides))
        figures.append(
            Figure(
                what=f"{what} of {rows.nbytes / 2**20:.0f} MiB",
                value=spread(ours, "MB/s", 0),
                peer=spread(theirs, "MB/s", 0),
                ratio=spread(ratios(ours, theirs), "", 2),
                aim="report",
            )
        )
    return figures


def doors_of(process: Process) -> tuple[str, int, int]:
    """The host of a process, and the ports for callers with a certificate and without."""
    address = read_address(process.directory)
    assert address is not None
    host, port = split(address)
    return host, port, port + 1


def unchecked() -> ssl.SSLContext:
    """A client of gRPC that believes any server."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def handshakes(count: int, secure: LocalCluster) -> list[Figure]:
    """New connections to the coordinator, one after the other, until each can be used."""
    host, members, strangers = doors_of(secure.coordinator)
    known = unchecked()
    known.load_cert_chain(str(secure.directory / TLS_FOLDER / CLIENT_FOLDER / IDENTITY))

    def connected(door: int, tls: ssl.SSLContext | None) -> None:
        with socket.create_connection((host, door)) as plain:
            if tls is not None:
                with tls.wrap_socket(plain) as one:
                    one.recv(1)  # of the server's first frame: it has taken the client's certificate

    def many(door: int, tls: ssl.SSLContext | None) -> list[float]:
        return [timed_ms(lambda: connected(door, tls)) for _ in range(count)]

    bare = many(members, None)
    return [
        Figure(
            what=f"a new connection, {who}",
            value=spread(found, "ms"),
            peer=f"{spread(bare, 'ms')}, TCP alone",
            ratio=f"{1000 / median(found):.0f} per second",
            aim="report",
        )
        for who, found in (
            ("both sides with certificates", many(members, known)),
            ("the server alone", many(strangers, unchecked())),
        )
    ]


def renewals(count: int, secure: LocalCluster) -> list[Figure]:
    """From new files for each process until a new connection to each shows them."""
    folder = secure.directory / TLS_FOLDER
    authority = open_authority(folder / AUTHORITY_FOLDER)
    processes = [secure.coordinator, *secure.nodes()]
    doors = [(host, strangers) for host, _, strangers in map(doors_of, processes)]
    times = []
    for _ in range(count):
        before = [ssl.get_server_certificate(door) for door in doors]
        for process in processes:
            renew(authority, folder / process.name, 90, datetime.now(UTC))
        began = time.perf_counter()
        for door, old in zip(doors, before, strict=True):
            while ssl.get_server_certificate(door) == old:
                time.sleep(0.05)
        times.append(time.perf_counter() - began)
    if not times:
        return []
    aim_s = CERTIFICATE_FILES_LOOK_NS / SECOND_NS + 1
    return [
        Figure(
            what="from `ca renew` to new certificates everywhere",
            value=spread(times, "s", 1),
            aim=f"under {aim_s:g} s",
            holds=max(times) < aim_s,
        )
    ]


def run(smallest: bool) -> list[Table]:
    size = SMALLEST if smallest else Size()
    with ExitStack() as opened:
        sides = [Side(*opened.enter_context(cluster_of(size.nodes, tls=tls))) for tls in (True, False)]
        for side in sides:
            statement(side.client, "CREATE DATABASE bench")
        secure = sides[0].local
        figures = [*statements(size.statements, sides), *data(size, sides)]
        figures += [*handshakes(size.handshakes, secure), *renewals(size.renewals, secure)]
    return [Table(title="TLS: a cluster with it beside one without", figures=figures)]
