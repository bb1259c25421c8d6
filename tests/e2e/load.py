"""Calls of a client that go on while something happens to the cluster."""

import threading
from collections.abc import Callable
from typing import Self

import pyarrow as pa

from leasehold.client.cluster import Cluster
from leasehold.wire.clock import sleep_ns
from tests.e2e.several_coordinators import PAUSE_NS
from tests.e2e.waiting import wait_until


class Load:
    """Calls about a table d.t (a BIGINT), again and again; a context manager that raises what failed."""

    def __init__(self, cluster: Cluster, statement: Callable[[int], str]) -> None:
        """Each round runs the statement of its number, too."""
        self._cluster = cluster
        self._statement = statement
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failed: BaseException | None = None
        self.rows = 0
        self.rounds = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def goes_on(self) -> bool:
        """Whether it has made a whole round since the last call of this."""
        before = self.rounds
        wait_until(lambda: self.rounds >= before + 2 or self._failed is not None)
        return self._failed is None

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._cluster.table("d.t").append(pa.table({"a": [self.rows]}))
                self.rows += 1
                assert self._cluster.table("d.t").scan().read_all().num_rows == self.rows
                self._cluster.sql(self._statement(self.rounds))
                self.rounds += 1
                sleep_ns(PAUSE_NS)
        except BaseException as error:  # noqa: BLE001 - it is raised again by whoever waits for this
            self._failed = error
