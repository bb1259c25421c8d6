"""A process takes over new certificates and cluster keys while it runs (docs/certificates.md)."""

import asyncio
import logging
from collections.abc import Callable

from leasehold.cli.discovery import Secrets, seal_of
from leasehold.core.membership.proofs import ProofKeys, derive_keys
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.cluster_key import stands_for
from leasehold.wire.current_files import say_ended, say_renewed, watch
from leasehold.wire.gossip import Gossip
from leasehold.wire.tls import Tls

log = logging.getLogger(__name__)


class Rotation:
    """Of the secrets of one process. `keys` is what its runtime proves itself with; `on_certificate` is called when new
    connections show a new certificate."""

    def __init__(
        self,
        secrets: Secrets,
        keys: ProofKeys | None,
        gossip: Gossip | None,
        on_certificate: Callable[[], None] = lambda: None,
    ) -> None:
        self._secrets = secrets
        self._keys = keys
        self._gossip = gossip
        self._on_certificate = on_certificate
        self._told = (asyncio.Event(), asyncio.Event())

    def look(self) -> None:
        """Looks at all files at once."""
        for one in self._told:
            one.set()

    def start(self, group: asyncio.TaskGroup) -> None:
        clock, (for_keys, for_tls) = BoottimeClock(), self._told
        if self._secrets.keys is not None:
            keys = self._secrets.keys.now()
            self._use_keys(keys)  # they may have changed while the process started
            group.create_task(watch(self._secrets.keys, keys, clock, for_keys, self._take_keys))
        if self._secrets.tls is not None:
            tls = self._secrets.tls.now()
            group.create_task(watch(self._secrets.tls, tls, clock, for_tls, self._take_certificate))
            group.create_task(say_ended(self._secrets.tls, clock))

    def _take_keys(self, keys: tuple[bytes, ...]) -> None:
        self._use_keys(keys)
        log.info("proving by the cluster key of tag %s now; keys believed: %d", stands_for(keys[0])[:8], len(keys))

    def _use_keys(self, keys: tuple[bytes, ...]) -> None:
        assert self._keys is not None, "a process with a cluster key proves itself with it"
        self._keys.become(derive_keys(*keys))
        if self._gossip is not None:
            self._gossip.seal_with(seal_of(keys))

    def _take_certificate(self, tls: Tls) -> None:
        say_renewed(tls)
        self._on_certificate()
