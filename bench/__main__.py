"""`python -m bench [guard|ddl|statements|scale|fences|renewals|gossip|simulation|spark|vault|recovery ..]`: all of
them by default; figures also go to `artifacts/bench`."""

import argparse
from functools import partial
from pathlib import Path

from bench import ddl, fences, gossip, guard, recovery, renewals, scale, simulation, spark, statements, vault

PARTS = {
    "guard": guard.run,
    "ddl": ddl.run,
    "statements": statements.run,
    "scale": scale.run,
    "renewals": renewals.run,
    "gossip": gossip.run,
    "simulation": simulation.run,
    "spark": spark.run,
    "vault": vault.run,
    "recovery": recovery.run,
    "fences": fences.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help="default: all")
    parser.add_argument("--results", type=Path, default=Path("artifacts/bench"))
    parser.add_argument("--minutes", type=float, default=fences.MINUTES, help="of Spark load, for fences")
    arguments = parser.parse_args()
    parts = {**PARTS, "fences": partial(fences.run, minutes=arguments.minutes)}
    for name in arguments.parts:
        parts[name](arguments.results)


if __name__ == "__main__":
    main()
