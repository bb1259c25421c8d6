"""Questions of a command to the leader, and their answers as rows by the names of their columns."""

from typing import Any

from leasehold.client.coordinators import Coordinators
from leasehold.core.words.messages import Rows

NamedRows = list[dict[str, Any]]


def ask(cluster: Coordinators, question: str) -> NamedRows:
    """The rows of a SHOW or DESCRIBE."""
    answer = cluster.sql(question)
    assert isinstance(answer, Rows), "it is a question"
    return named(answer)


def named(answer: Rows) -> NamedRows:
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
