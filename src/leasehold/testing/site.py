"""What the machines of a simulated cluster share: time, chance, the network, the meta storage, who watches."""

import asyncio
from random import Random  # noqa: TID251 a type alone: the generator is the caller's

from leasehold.core.membership.proofs import ProofKeys, derive_keys
from leasehold.core.words.records import SettingsRecord
from leasehold.limits.swim import CLUSTER_KEY_BYTES
from leasehold.testing.entropy import SeededEntropy
from leasehold.testing.loop import VirtualLoop
from leasehold.testing.metastorage import MemoryStore
from leasehold.testing.network import Link, Network
from leasehold.testing.observe import Watch
from leasehold.testing.oracle import Oracle

KEYS: ProofKeys = derive_keys(bytes(CLUSTER_KEY_BYTES))
"""Of the cluster key that all processes of a simulated cluster share."""


class Site:
    """Of one run; made inside `run_virtual`, with its random generator."""

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
        self.watch = None if oracle is None else Watch(oracle, loop, self.store)
        self.addresses: tuple[str, ...] = ()
        """Of all coordinators."""

    def revive(self, host: str) -> None:
        """Makes a host ready for a process, whether one was killed there or none ever ran."""
        if not self.network.host(host).alive:
            self.network.restart(host)

    def fault(self, fault: BaseException) -> None:
        """What a handler did not expect ends the run."""
        self.loop.call_exception_handler({"message": "a handler failed", "exception": fault})
