"""What runs again if Spark has given up on a Python worker: it waits 10 s for one to connect, which can't be set, and a
busy machine may need longer."""

from collections.abc import Callable
from typing import Final, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql.streaming import DataStreamWriter

T = TypeVar("T")

GAVE_UP: Final = "Python worker failed to connect back"
ATTEMPTS: Final = 40


def again(run: Callable[[], T]) -> T:
    """What `run` returns."""
    for _ in range(ATTEMPTS - 1):
        try:
            return run()
        except PySparkException as error:
            if GAVE_UP not in str(error):
                raise
    return run()


def to_its_end(writer: DataStreamWriter, *target: str) -> None:
    """Runs a query until it has written what there is; it goes on from its checkpoint."""

    def run() -> None:
        query = writer.trigger(availableNow=True).start(*target)
        try:
            query.awaitTermination()
        finally:
            query.stop()

    again(run)
