"""A client on one of the hosts: does what the lines on its standard input say, one JSON object each.

Each request runs on a thread of its own and ends with one line, which holds its `id` and an `answer` or an `error`.
Before that there may be lines with an `event`. Instants are of the machine's clock, which all namespaces share.
"""

import asyncio
import base64
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import flight

from leasehold.cli.config import coordinator_config
from leasehold.cli.shared_store import shared_store
from leasehold.client.cluster import Cluster, connect
from leasehold.core.words.codec import decode_message, encode
from leasehold.core.words.messages import BatchMark, ReadTicket, ScanPlan, WaitingFor
from leasehold.errors import LeaseholdError
from leasehold.ids import Revision, StatementId
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.location import parse_location
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.flight import HEALTH, calling, expect, reader_to, ticket, within
from tests.netns.remote import own_trust

SCAN_PAUSE_SECONDS = 0.005
LOOKS_MAX = 100_000

TLS = own_trust()

now_ns = BoottimeClock().now_ns


class Say:
    """Lines out; threads take turns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, line: dict[str, Any]) -> None:
        with self._lock:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


class Scanner:
    """Reads the first segment of a plan from one node, again and again, and remembers what each attempt met."""

    def __init__(self, address: str, plan: ScanPlan) -> None:
        self._address = address
        segment = plan.segments[0]
        self._ticket = ReadTicket(
            cluster_id=plan.facts.cluster_id,
            request="f" * 32,
            table=segment.table,
            bucket=segment.bucket,
            segment=segment.id,
            sha256=segment.sha256,
            row_offset=0,
            fields=plan.fields,
            revision=Revision(0),  # it has seen nothing: whatever the node may serve is good enough
        )
        self._stopped = threading.Event()
        self.looks: list[tuple[int, int, str, int, int]] = []
        """When it was asked and answered, SERVED or the code of the refusal, at which view, and how many rows."""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(SCAN_PAUSE_SECONDS) and len(self.looks) < LOOKS_MAX:
            asked_ns = now_ns()
            outcome, view, rows = self._look()
            self.looks.append((asked_ns, now_ns(), outcome, view, rows))

    def _look(self) -> tuple[str, int, int]:
        view, rows = 0, 0
        try:
            with calling(self._address):
                stream = reader_to(self._address, TLS).do_get(ticket(self._ticket), within(SECOND_NS))
                while True:
                    try:
                        chunk = stream.read_chunk()
                    except StopIteration:
                        return "SERVED", view, rows
                    view = expect(BatchMark, chunk.app_metadata).view_revision
                    rows += chunk.data.num_rows
        except LeaseholdError as error:
            return error.code, view, rows


class Traffic:
    """One client that scans a table and one that appends to a table, each again and again without a pause."""

    def __init__(self, target: str, scanned: str, appended: str) -> None:
        self._stopped = threading.Event()
        self._ended: dict[str, list[int]] = {"reads": [], "appends": []}
        self._errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._run, args=(target, "reads", scanned)),
            threading.Thread(target=self._run, args=(target, "appends", appended)),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> dict[str, Any]:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        return {**self._ended, "errors": self._errors}

    def _run(self, target: str, kind: str, name: str) -> None:
        rows = pa.table({"k": list(range(10)), "v": ["v"] * 10})
        with connect(target) as cluster:
            while not self._stopped.wait(SCAN_PAUSE_SECONDS):
                try:
                    table = cluster.table(name)
                    if kind == "reads":
                        table.scan().read_all()
                    else:
                        table.append(rows)
                except LeaseholdError as error:
                    self._errors.append(f"{kind} [{error.code}]: {error.text}")
                else:
                    self._ended[kind].append(now_ns())


class Driver:
    """What it can be told to do: the public methods below, by name."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._idle: dict[tuple[str, bool], list[Cluster]] = {}
        """By address; those that have run a statement know which cluster it is, and send the next one at once."""
        self._scanner: Scanner | None = None
        self._traffic: Traffic | None = None

    # ------------------------------------------------------------ the cluster

    def sql(self, request: dict[str, Any], cluster: Cluster) -> dict[str, Any]:
        """Runs a statement; says when it is about to be sent, and whom it waits for."""

        def waiting(message: WaitingFor) -> None:
            self._say({"id": request["id"], "event": "waiting", "nodes": message.nodes})

        self._say({"id": request["id"], "event": "sent"})
        sent_ns = now_ns()
        answer = cluster.sql(request["text"], statement_id=StatementId(request["statement"]), on_wait=waiting)
        return {"sent_ns": sent_ns, "answered_ns": now_ns(), "answer": msgspec.to_builtins(answer)}

    def status(self, request: dict[str, Any], cluster: Cluster) -> Any:
        return msgspec.to_builtins(cluster.status())

    def append(self, request: dict[str, Any], cluster: Cluster) -> int:
        return cluster.table(request["table"]).append(pa.table(request["rows"]))

    def rows(self, request: dict[str, Any], cluster: Cluster) -> dict[str, list[Any]]:
        return cluster.table(request["table"]).scan().read_all().to_pydict()

    def timed(self, request: dict[str, Any], cluster: Cluster) -> dict[str, Any]:
        """Another request, `what`, and when it began and ended. All of these have one client, in turn."""
        began_ns = now_ns()
        answer = getattr(self, request["what"])(request, cluster)
        return {"began_ns": began_ns, "ended_ns": now_ns(), "answer": answer}

    def plan(self, request: dict[str, Any], cluster: Cluster) -> str:
        return base64.b64encode(encode(cluster.plan(request["table"]))).decode()

    def initialise(self, request: dict[str, Any], cluster: Cluster) -> str:
        return cluster.initialise().cluster_id

    def verify(self, request: dict[str, Any], cluster: Cluster) -> Any:
        from leasehold.cli.verify import verify

        return msgspec.to_builtins(verify(Path(request["directory"])))

    def traffic(self, request: dict[str, Any], cluster: Cluster) -> None:
        """Begins to scan one table and to append to another, until told to stop."""
        assert self._traffic is None
        self._traffic = Traffic(request["target"], request["scanned"], request["appended"])

    def traffic_ended(self, request: dict[str, Any], cluster: Cluster) -> dict[str, Any]:
        """When each scan and each append ended well, and what the others ended with."""
        assert self._traffic is not None
        traffic, self._traffic = self._traffic, None
        return traffic.stop()

    def leading_members(self, request: dict[str, Any], cluster: Cluster) -> list[str]:
        """The addresses of the members of a store that say that they lead."""
        config = coordinator_config(None, {"dir": Path("nowhere"), "meta": request["meta"]})

        async def ask() -> list[str]:
            store = shared_store(config, parse_location(request["meta"]), BoottimeClock())
            try:
                return [member.address for member in await store.members() if member.leads]
            finally:
                await store.close()

        return asyncio.run(ask())

    # ------------------------------------------------------------ one node

    def scan(self, request: dict[str, Any], cluster: Cluster) -> None:
        """Begins to read from the node at `address`, until told to stop."""
        assert self._scanner is None
        plan = decode_message(base64.b64decode(request["plan"]))
        assert isinstance(plan, ScanPlan)
        self._scanner = Scanner(request["address"], plan)

    def looks(self, request: dict[str, Any], cluster: Cluster) -> list[Any]:
        """What the scanner has met from the attempt of this number on."""
        assert self._scanner is not None
        return self._scanner.looks[request["first"] :]

    def health(self, request: dict[str, Any], cluster: Cluster) -> Any:
        """How the node at `address` sees itself; raises if it does not answer."""
        with calling(request["address"]):
            client = reader_to(request["address"], TLS)
            (answer,) = client.do_action(flight.Action(HEALTH, b""), within(SECOND_NS))
            return json.loads(answer.body.to_pybytes())

    def stop(self, request: dict[str, Any], cluster: Cluster) -> None:
        if self._scanner is not None:
            self._scanner.stop()
            self._scanner = None

    # ------------------------------------------------------------ the lines

    def serve(self, request: dict[str, Any]) -> None:
        """One request, to its last line."""
        target = request.get("target", "127.0.0.1:1")
        idle = self._idle.setdefault((target, request["do"] == "sql"), [])
        try:
            cluster = idle.pop()
        except IndexError:
            cluster = connect(target)
        try:
            line = {"answer": getattr(self, request["do"])(request, cluster)}
        except LeaseholdError as error:
            line = {"error": {"kind": type(error).__name__, "code": error.code, "text": error.text}}
        idle.append(cluster)  # before the answer, so that the next request of the same kind has open connections
        self._say({"id": request["id"], **line})


def main() -> None:
    driver = Driver(Say())
    for line in sys.stdin:
        threading.Thread(target=driver.serve, args=(json.loads(line),), daemon=True).start()
    os._exit(0)  # whoever told it what to do is gone


if __name__ == "__main__":
    main()
