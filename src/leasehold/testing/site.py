"""What the machines of a simulated cluster share: time, randomness, the network, the meta storage, the observer."""

import asyncio
from random import Random  # noqa: TID251 a type alone: the generator is the caller's

from leasehold.core.membership.proofs import ProofKeys, derive_keys
from leasehold.core.words.records import SettingsRecord
from leasehold.limits.swim import CLUSTER_KEY_BYTES
from leasehold.testing.entropy import SeededEntropy
from leasehold.testing.log_store import KeptLog
from leasehold.testing.loop import VirtualLoop
from leasehold.testing.metastorage import MemoryStore
from leasehold.testing.mirror import LogMirror
from leasehold.testing.network import Link, Network
from leasehold.testing.observe import Watch
from leasehold.testing.oracle import Oracle

KEYS: ProofKeys = derive_keys(bytes(CLUSTER_KEY_BYTES))
"""Of the cluster key that all processes of a simulated cluster share."""


class Site:
    """The shared parts of one run; made inside `run_virtual`, with its random generator."""

    def __init__(
        self, random: Random, *, settings: SettingsRecord, link: Link | None, oracle: Oracle | None, supervised: bool
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.random = random
        self.entropy = SeededEntropy(random)
        self.keys = KEYS
        self.settings = settings
        self.supervised = supervised
        """Whether a node that learns it is superseded is started again; otherwise its error ends the run."""
        self.network = Network(loop, random, link=link)
        self.store = MemoryStore()
        """Of a single coordinator; of several, the mirror of their log."""
        self.kept_log = KeptLog()
        self.watch = None if oracle is None else Watch(oracle, loop, self.store)
        mirror = LogMirror(self.kept_log, self.store)
        if self.watch is not None:
            self.watch.log(mirror)
        self.addresses: tuple[str, ...] = ()
        """Of all coordinators."""
        self.given: tuple[str, ...] | None = None
        """The coordinators that are configured at each node; None for all of `addresses`."""

    def revive(self, host: str) -> None:
        """Makes a host ready for a new process."""
        if not self.network.host(host).alive:
            self.network.restart(host)

    def fault(self, fault: BaseException) -> None:
        """Ends the run by an unexpected error of a handler."""
        self.loop.call_exception_handler({"message": "a handler failed", "exception": fault})
