"""How long frames that read files can do so, and what a query over a later one says.

A frame has an open (`client/local_opens.py`): folders with links to its files. It ends when a statement takes away what
the frame reads, or when its node fails. Then no task opens a file any more, and a query over the frame fails. Spark
only knows that a file is not there; what is raised here says why.

Python can't tell how long a frame is used: each frame that is made of it has the same plan, in Java. So Java is asked
whether it still has that plan; once it has not, the open is closed.
"""

import re
import threading
from collections.abc import Callable
from typing import Any, Final

from py4j import java_gateway
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from leasehold.client.local_opens import LocalOpen
from leasehold.errors import LeaseholdError, Refused
from leasehold.limits.local import LOCAL_FRAMES_LOOK_NS, LOCAL_FRAMES_MANY
from leasehold.limits.units import SECOND_NS
from leasehold.spark.application import application_of
from leasehold.spark.errors import readable
from leasehold.storage.local_links import FOLDER

_IN_OPEN: Final = re.compile(rf"/{FOLDER}/([0-9a-f]{{32}})/")


class _HeldFrame:
    """A frame that reads files, with all that were made of it."""

    def __init__(self, table: str, opened: LocalOpen, plan: Any) -> None:
        self.table = table
        self.opened = opened
        self._plan = plan
        """A weak reference in Java."""

    @property
    def is_used(self) -> bool:
        """Whether Java still has its plan. Raises if Java has gone."""
        return not self._plan.refersTo(None)


class _HeldFrames:
    """All of one application; any thread may use it."""

    def __init__(self, spark: SparkSession) -> None:
        java: Any = spark
        self._jvm: Any = java._jvm
        self._lock = threading.Lock()
        self._by_folder: dict[str, _HeldFrame] = {}
        self._many = LOCAL_FRAMES_MANY
        self._ended = threading.Event()
        threading.Thread(target=self._keep_looking, name="leasehold-frames", daemon=True).start()

    def add(self, frame: DataFrame, table: str, opened: LocalOpen) -> None:
        held = _HeldFrame(table, opened, self._weakly(frame))
        with self._lock:
            for folder in {path.parent.name for group in opened.folders for path in group}:
                self._by_folder[folder] = held
            is_many = len(self._by_folder) >= self._many
        if is_many:
            # Java collects garbage when it needs room, which may be never.
            self._jvm.java.lang.System.gc()
            self._many = max(LOCAL_FRAMES_MANY, 2 * self.look())

    def look(self) -> int:
        """Closes the opens of frames that are not used; how many are left."""
        for held in self._all():
            if not held.is_used:
                self._forget(held, "no frame needed them")
        return len(self._by_folder)

    def why(self, text: str) -> tuple[str, LeaseholdError] | None:
        """The table that the text of an error of Spark is about, and why its files can't be opened; None for other
        errors."""
        for folder in dict.fromkeys(_IN_OPEN.findall(text)):
            held = self._by_folder.get(folder)
            if held is not None and (why := held.opened.check()) is not None:
                return held.table, why
        return None

    def end(self) -> None:
        """Closes all. Idempotent."""
        self._ended.set()
        for held in self._all():
            self._forget(held, "its application has ended")

    def _weakly(self, frame: DataFrame) -> Any:
        """A weak reference to what all frames share that are made of this one: where the first of its reads looks for
        files."""
        java: Any = frame
        read = java._jdf.queryExecution().analyzed().collectLeaves().head()
        return self._jvm.java.lang.ref.WeakReference(read.relation().location())

    def _all(self) -> set[_HeldFrame]:
        with self._lock:
            return set(self._by_folder.values())

    def _forget(self, held: _HeldFrame, why: str) -> None:
        held.opened.close(why)
        with self._lock:
            for folder in [one for one, each in self._by_folder.items() if each is held]:
                del self._by_folder[folder]

    def _keep_looking(self) -> None:
        while not self._ended.wait(LOCAL_FRAMES_LOOK_NS / SECOND_NS):
            try:
                self.look()
            except (Py4JError, OSError):  # Java has ended, and with it all frames
                self.end()


_HELD: Final[dict[str, _HeldFrames]] = {}
"""By the ids that Spark gives applications."""


def hold(spark: SparkSession, frame: DataFrame, table: str, opened: LocalOpen) -> None:
    """Keeps what was opened for a frame as long as the frame, or one that was made of it, is there."""
    key = spark.sparkContext.applicationId
    held = _HELD.get(key)
    if held is None:
        held = _HELD[key] = _HeldFrames(spark)
        application_of(spark).at_end(lambda: _HELD.pop(key).end())
    held.add(frame, table, opened)
    # PySpark turns errors of Java into its own in this very way, anew for each session.
    gateway: Any = java_gateway
    if not isinstance(gateway.get_return_value, _Explained):
        gateway.get_return_value = _Explained(gateway.get_return_value)


class _Explained:
    """What takes the answers of Java, with our errors for those of files that can't be opened any more."""

    def __init__(self, taken: Callable[..., object]) -> None:
        self._taken = taken

    def __call__(self, *answer: object, **more: object) -> object:
        try:
            return self._taken(*answer, **more)
        except (PySparkException, Py4JError) as error:
            text = str(error)
            found = next((why for one in tuple(_HELD.values()) if (why := one.why(text)) is not None), None)
            if found is None:
                raise
        table, why = found
        with readable(table):
            raise Refused(
                f"the files of this frame can't be opened any more: {why.text}",
                code=why.code,
                hint=f'make the frame again with leasehold.spark.table(spark, "{table}")',
            )
