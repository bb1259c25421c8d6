"""Reports a coordinator that follows to the leader, again and again, so that all others know it."""

import logging
from typing import NoReturn

from leasehold.coordinator.follower import Follower
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.membership.proofs import ProofKeys, with_proof
from leasehold.core.words.messages import ReportCoordinator
from leasehold.core.words.records import CoordinatorRecord
from leasehold.errors import Definite, LeaseholdError, NotLeader
from leasehold.limits.membership import COORDINATOR_REPORT_NS
from leasehold.metastorage.contract import MetaStorage
from leasehold.wire.ports import Clock, Transport

log = logging.getLogger(__name__)


class CoordinatorReporter:
    """Reports `follower` as the coordinator `me`."""

    def __init__(
        self,
        storage: MetaStorage,
        follower: Follower,
        me: CoordinatorRecord,
        transport: Transport,
        clock: Clock,
        keys: ProofKeys | None,
    ) -> None:
        self._storage = storage
        self._follower = follower
        self._me = me
        self._transport = transport
        self._clock = clock
        self._keys = keys
        self._said = ""

    async def run(self) -> NoReturn:
        while True:
            catalog, seen = self._follower.catalog, self._storage.seen_leader
            if catalog is not None and seen is not None and seen.holder not in {"", self._me.address}:
                await self._report(seen.holder, catalog)
            await self._clock.sleep_until(self._clock.now_ns() + COORDINATOR_REPORT_NS)

    async def _report(self, leader: str, catalog: Catalog) -> None:
        if catalog.cluster is None:
            return
        report = ReportCoordinator(
            cluster_id=catalog.cluster.cluster_id,
            address=self._me.address,
            name=self._me.name,
            version=self._me.version,
            applied=catalog.revision,
            member=self._storage.member,
        )
        connection = self._transport.connect(leader)
        try:
            await connection.call(with_proof(report, self._keys), timeout_ns=COORDINATOR_REPORT_NS)
        except NotLeader:
            pass  # another one leads by now, or will
        except Definite as error:
            if error.text != self._said:
                self._said = error.text
                log.warning("%s does not take the report of this coordinator: %s", leader, error)
        except LeaseholdError as error:
            log.debug("no answer of %s to the report of this coordinator: %s", leader, error)
        finally:
            await connection.close()
