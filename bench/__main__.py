"""`python -m bench [guard|ddl|spark ..]`: all of them by default; figures also go to `artifacts/bench`."""

import argparse
from pathlib import Path

from bench import ddl, guard, spark

PARTS = {"guard": guard.run, "ddl": ddl.run, "spark": spark.run}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help="default: all")
    parser.add_argument("--results", type=Path, default=Path("artifacts/bench"))
    arguments = parser.parse_args()
    for name in arguments.parts:
        PARTS[name](arguments.results)


if __name__ == "__main__":
    main()
