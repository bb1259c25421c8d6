"""The delegated logins of a Spark application: its driver renews them while it runs, and ends them when it ends.

A session of Spark Connect counts as an application, and its client as the driver.

Processes that Spark starts beside the driver ask for the logins, each for one read or write (`spark/entry.py`). They
name the application by the hash of a secret. The secret stays in the driver, and with it the power to renew.

| the driver | its logins end |
| --- | --- |
| stops its SparkContext, or its session of Spark Connect | then |
| ends without that | when Python ends |
| is killed, or no coordinator answers for LOGINS_END_NS at its end | DELEGATED_TTL_NS after the last renewal |
"""

import atexit
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import SparkSession

from leasehold.client.cluster import Cluster
from leasehold.core.membership.identity import hash_secret
from leasehold.errors import LeaseholdError
from leasehold.ids import ApplicationSecret
from leasehold.limits.people import DELEGATED_RENEW_NS, DELEGATED_TTL_NS, LOGINS_END_NS
from leasehold.limits.units import SECOND_NS
from leasehold.spark.session_kinds import is_classic, is_one_process, session_id
from leasehold.wire.entropy import SystemEntropy

log = logging.getLogger(__name__)

_CLEAR: Final = (
    "Spark sends rows, and logins that end with this application, to its executors in the clear. On a network that"
    " others share, set spark.authenticate and spark.network.crypto.enabled to true (docs/operations.md)"
)
_APPLICATIONS: Final[dict[str, "Application"]] = {}
"""Those of this process that have not ended, by the ids that Spark gives them."""


class Application:
    """One SparkContext, or one session of Spark Connect; for any thread."""

    def __init__(self) -> None:
        self._secret = ApplicationSecret(SystemEntropy().hex_128())
        self.id: Final = hash_secret(self._secret)
        self._clusters: dict[str, str | None] = {}
        self._at_end: list[Callable[[], None]] = []
        self._ended = threading.Event()
        threading.Thread(target=self._keep_renewing, name="leasehold-logins", daemon=True).start()

    def keep(self, target: str, credentials: str | None) -> None:
        """From now on the logins at this cluster are renewed; `credentials` is a file that says whom to trust."""
        self._clusters[target] = credentials

    def at_end(self, act: Callable[[], None]) -> None:
        """Calls `act`, which raises nothing, before the logins end."""
        self._at_end.append(act)

    def end(self) -> None:
        """Ends all logins of the application. Idempotent, and raises nothing."""
        if not self._ended.is_set():
            self._ended.set()
            for act in self._at_end:
                act()
            minutes = DELEGATED_TTL_NS // (60 * SECOND_NS)
            self._renew(f"end within {minutes} minutes", ends=True, timeout=LOGINS_END_NS / SECOND_NS)

    def renew(self) -> None:
        """Lets all logins of the application live on. Raises nothing: the next time comes long before they end."""
        self._renew("were not renewed")

    def _renew(self, otherwise: str, *, ends: bool = False, timeout: float | None = None) -> None:
        """At all clusters; `otherwise` is what it logs of the logins at one that could not be asked."""
        for target, credentials in tuple(self._clusters.items()):
            try:
                with Cluster(target, credentials=credentials, timeout=timeout) as cluster:
                    cluster.renew_logins(self._secret, ends=ends)
            except LeaseholdError as error:
                log.warning("the logins of Spark's tasks at %s %s: %s", target, otherwise, error)

    def _keep_renewing(self) -> None:
        while not self._ended.wait(DELEGATED_RENEW_NS / SECOND_NS):
            self.renew()


def is_in_the_clear(get: Callable[[str, str], str | None]) -> bool:
    """Whether Spark's driver and executors talk without encryption; `get` tells a setting, or what it is without."""

    def is_on(name: str) -> bool:
        return (get(name, "false") or "").lower() == "true"

    encrypts = is_on("spark.network.crypto.enabled") or is_on("spark.authenticate.enableSaslEncryption")
    by_key = is_on("spark.authenticate") and encrypts
    return not by_key and not is_on("spark.ssl.rpc.enabled")


def application_of(spark: SparkSession) -> Application:
    """The application of a session that has not been stopped; ends with it."""
    stopping: Any = spark.sparkContext if is_classic(spark) else spark
    key = stopping.applicationId if is_classic(spark) else session_id(spark)
    found = _APPLICATIONS.get(key)
    if found is None:
        found = _APPLICATIONS[key] = Application()
        if is_classic(spark) and not is_one_process(spark) and is_in_the_clear(stopping.getConf().get):
            log.warning(_CLEAR)
        atexit.register(found.end)
        stop = stopping.stop

        def stop_and_end() -> None:
            try:
                stop()
            finally:
                _APPLICATIONS.pop(key, None)  # it may be stopped twice
                atexit.unregister(found.end)
                found.end()

        stopping.stop = stop_and_end  # Spark tells Python code of the end in no other way
    return found
