"""`leasehold.spark.sql` over drawn tables answers what Spark does over all of their rows and columns.

It reads fewer columns and rows: none that the answer needs may be missing.
"""

from random import Random

import pytest
from pyspark.sql import SparkSession

from leasehold.client.cluster import Cluster
from leasehold.spark import sql, table
from tests.e2e.spark.drawn_tables import COMPARISONS, DrawnTable, rows_of
from tests.few import few

pytestmark = pytest.mark.spark

TABLES = 60
QUERIES = 6
OPERATORS = (*COMPARISONS, "IN", "IS NULL", "IS NOT NULL", "LIKE")
JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN")


class DrawnQuery:
    """A SELECT over a table that is named `{t}`."""

    def __init__(self, drawn: DrawnTable) -> None:
        self._drawn = drawn
        self._random = drawn.random
        self._names = [one.name for one in drawn.fields()]

    def text(self) -> str:
        return self._random.choice(
            (self._plain, self._grouped, self._joined, self._joined, self._nested, self._united)
        )()

    def _plain(self) -> str:
        return f"SELECT {self._some()} FROM {{t}} AS t WHERE {self._where('t')}"

    def _grouped(self) -> str:
        name = self._random.choice(self._names)
        return f"SELECT {name}, count(*), max(id) FROM {{t}} WHERE {self._where()} GROUP BY {name} HAVING count(*) > 0"

    def _joined(self) -> str:
        join = self._random.choice(JOINS)
        on = "" if join == "CROSS JOIN" else " ON l.id % 3 = r.id % 3"
        side = "l" if "SEMI" in join or "ANTI" in join else self._random.choice("lr")
        shown = f"{side}.*" if self._random.random() < 0.2 else f"{side}.{self._random.choice(self._names)}"
        return f"SELECT {shown} FROM {{t}} l {join} {{t}} r{on} WHERE {self._where(side)}"

    def _nested(self) -> str:
        inner = f"SELECT 1 FROM {{t}} i WHERE i.id % 5 = o.id % 3 AND {self._where('i')}"
        return f"SELECT {self._some()} FROM {{t}} o WHERE NOT EXISTS ({inner}) AND {self._where('o')}"

    def _united(self) -> str:
        name = self._random.choice(self._names)
        return (
            f"WITH w AS (SELECT id, {name} FROM {{t}} WHERE {self._where()})"
            f" SELECT {name} FROM w UNION ALL SELECT {name} FROM {{t}} WHERE {self._where()}"
        )

    def _some(self) -> str:
        if self._random.random() < 0.2:
            return "*"
        return ", ".join(self._random.sample(self._names, k=self._random.randint(1, len(self._names))))

    def _where(self, alias: str | None = None) -> str:
        """Conditions of which some are taken down to the scan, and some are not."""
        found: list[str] = []
        for _ in range(self._random.randint(1, 3)):
            one = self._drawn.condition(OPERATORS) if self._random.random() < 0.7 else self._drawn.spark_condition()
            if one is not None and "{" not in one:
                found.append(one)
        text = self._random.choice((" AND ", " AND ", " AND ", " OR ")).join(found) or "id >= 0"
        text = f"NOT ({text})" if self._random.random() < 0.15 else text
        return text if alias is None else self._qualified(text, alias)

    def _qualified(self, text: str, alias: str) -> str:
        words = text.split(" ")
        return " ".join(self._one_qualified(word, alias) for word in words)

    def _one_qualified(self, word: str, alias: str) -> str:
        bare = word.lstrip("(").removeprefix("coalesce(")
        return word.replace(bare, f"{alias}.{bare}") if bare in self._names else word


@pytest.mark.parametrize("seed", few(3, range(TABLES)))
def test_no_row_is_missing(spark: SparkSession, cluster: Cluster, seed: int) -> None:
    random = Random(seed)
    drawn = DrawnTable(cluster, f"e2e.asked_{seed}", random)
    drawn.grow()
    queries = DrawnQuery(drawn)
    table(spark, drawn.name, local=False).createOrReplaceTempView("whole")
    try:
        for _ in range(QUERIES):
            text = queries.text()
            drawn.log.append(text)
            found = sql(spark, text.format(t=drawn.name), local=random.choice((True, False)))
            assert rows_of(found.toArrow()) == rows_of(spark.sql(text.format(t="whole")).toArrow())
    except BaseException as error:
        error.add_note("\n".join(drawn.log))
        raise
    finally:
        spark.catalog.dropTempView("whole")
        cluster.sql(f"DROP TABLE {drawn.name}")
