"""`python -m bench [PART ..]`: runs these parts, by default all of them, and keeps the figures in `artifacts/bench`."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from bench import (
    attacks,
    coordinators,
    ddl,
    fences,
    flight,
    gossip,
    guard,
    kills,
    outages,
    recovery,
    renewals,
    repairs,
    replicated_log,
    results,
    scale,
    simulation,
    small_commits,
    spark,
    spark_peers,
    spark_reads,
    spark_writes,
    statements,
    tls,
    vault,
)
from bench.figures import Table

Run: TypeAlias = Callable[[bool], Sequence[Table]]
"""Measures a part; called with True at its smallest size, which only shows that the part runs."""

PARTS: dict[str, Run] = {
    "guard": guard.run,
    "ddl": ddl.run,
    "statements": statements.run,
    "scale": scale.run,
    "renewals": renewals.run,
    "gossip": gossip.run,
    "simulation": simulation.run,
    "spark": spark.run,
    "reads": spark_reads.run,
    "writes": spark_writes.run,
    "commits": small_commits.run,
    "peers": spark_peers.run,
    "vault": vault.run,
    "flight": flight.run,
    "tls": tls.run,
    "recovery": recovery.run,
    "repairs": repairs.run,
    "kills": kills.run,
    "outages": outages.run,
    "coordinators": coordinators.run,
    "log": replicated_log.run,
    "fences": fences.run,
    "attacks": attacks.run,
}


def main(words: Sequence[str] | None = None) -> None:
    """Entry point. A part that fails ends the run; what was measured before it is kept."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"default: all of {', '.join(PARTS)}")
    parser.add_argument("--results", type=Path, default=Path("artifacts/bench"), help="where figures are kept")
    parser.add_argument("--minutes", type=float, default=fences.MINUTES, help="of Spark load, for fences")
    parser.add_argument("--rows", type=int, default=spark_reads.ROWS, help="that Spark reads, for reads")
    parser.add_argument("--smallest", action="store_true", help="run at the smallest size: figures mean nothing")
    parser.add_argument("--write-docs", action="store_true", help=f"write these figures to {results.DOCUMENT.name}")
    arguments = parser.parse_args(words)
    unknown = [name for name in arguments.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    if arguments.smallest and arguments.write_docs:
        parser.error("--smallest measures nothing that belongs into a document")
    parts = {
        **PARTS,
        "fences": partial(fences.run, minutes=arguments.minutes),
        "reads": partial(spark_reads.run, rows=arguments.rows),
    }
    commit = results.commit()  # of what is measured, whatever changes while it runs
    for name in arguments.parts or PARTS:
        tables = list(parts[name](arguments.smallest))
        result = results.Result(part=name, commit=commit, machine=results.machine(), tables=tables)
        results.show(result)
        results.keep(result, arguments.results)
        if arguments.write_docs:
            results.write_document(result, list(PARTS))


if __name__ == "__main__":
    main()
