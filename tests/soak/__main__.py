"""`make soak MINUTES=n`: simulated clusters, seed after seed; clusters of real processes under faults; and at the end,
for a quarter of the time, a pipeline in Spark whose processes are killed.

On two cores or more the first two run at once, the simulated one giving way to the other; else one after the other. A
violation stops it: the simulated part prints the command that repeats it, the others where their logs lie, with the
seed of their faults (real processes never run the same way twice). Exit codes: 0 all held, 1 not.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from leasehold.cli.output import note, say, show_json, show_table
from leasehold.limits.units import SECOND_NS
from tests.soak.copies import WORKS
from tests.soak.faults import now_ns
from tests.soak.grounds import why_no_network
from tests.soak.real import Real, soak
from tests.soak.simulated import Simulated

LOST = ("machines lost", *(f"machines lost in a {what}" for what in WORKS))
FIRST_SEED = 1_000
PIPELINE = 1 / 4
"""The pipeline's part of the time."""
NS_PER_MINUTE = 60 * SECOND_NS
ROWS = ("seconds", "seeds", "steps", "faults", "statements", "batches_checked", "violations")


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="the first seed of both; later ones count up")
    parser.add_argument("--part", choices=["all", "simulated", "real", "pipeline"], default="all")
    parser.add_argument("--keep", type=Path, help="below which a cluster that fails is left (default: a new directory)")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _ended)
    minutes, part = arguments.minutes, arguments.part
    pipeline_minutes = minutes if part == "pipeline" else minutes * PIPELINE
    at_once = (os.cpu_count() or 1) > 1
    if part == "all":
        note("two parts at once, the simulated one giving way" if at_once else "one part after the other")
        minutes -= pipeline_minutes
        minutes = minutes if at_once else minutes / 2
    report: dict[str, Any] = {}
    if part == "simulated" or (part == "all" and not at_once):
        report["simulated"] = simulated(arguments.seed, minutes)
    if part == "all" and at_once:
        report = both(arguments.seed, minutes, arguments.keep)
    elif part in {"all", "real"} and not violations(report):
        report["real"] = real(arguments.seed, minutes, arguments.keep)
    if part in {"all", "pipeline"} and not violations(report):
        report["pipeline"] = pipeline(arguments.seed, pipeline_minutes, arguments.keep)
    show(report, arguments.output)
    return 1 if violations(report) else 0


def simulated(seed: int, minutes: float) -> dict[str, Any]:
    began_ns = now_ns()
    with Simulated(seed, minutes, politely=False) as campaign:
        return campaign.tally() | {"seconds": _seconds_since(began_ns)}


def real(seed: int, minutes: float, keep: Path | None, campaign: Simulated | None = None) -> dict[str, Any]:
    began_ns = now_ns()
    why = why_no_network()
    note(f"real: the network is left alone: {why}" if why else "real: each process in a network namespace of its own")
    scratch = _scratch(keep)
    done = Real()
    until_ns = began_ns + int(minutes * NS_PER_MINUTE)
    try:
        soak(done, seed, until_ns, scratch, over=lambda: campaign is not None and campaign.failed())
    except (KeyboardInterrupt, SystemExit):
        shutil.rmtree(scratch)
        raise
    except BaseException:
        note(f"real: what it left lies in {scratch}")
        raise
    if not done.violations:
        scratch.rmdir()
    for line in done.violations:
        note(f"real: {line}")
    return {
        "seconds": _seconds_since(began_ns),
        "seeds": done.seeds,
        "steps": done.steps,
        "network": why or "broken too",
        "faults": dict(sorted(done.faults.items())),
        **{what.replace(" ", "_"): done.counts[what] for what in LOST},
        "statements": done.counts["statements"],
        "writes": done.counts["appends"],
        "scans": done.counts["scans"],
        "rows": done.counts["rows"],
        "batches_checked": done.counts["batches"],
        "catalog_answers": done.counts["catalog answers"],
        "histories": done.counts["histories"],
        "undecided_histories": done.counts["undecided histories"],
        "late_on_a_stalled_machine": done.late_on_a_stalled_machine,
        "violations": len(done.violations and done.violations[:-1]),
        "violated": done.violations,
    }


def pipeline(seed: int, minutes: float, keep: Path | None) -> dict[str, Any]:
    from tests.soak.pipelines import Pipelines, repeat  # the other parts need no Spark

    began_ns = now_ns()
    done = Pipelines()
    scratch = _scratch(keep)
    try:
        repeat(done, seed, began_ns + int(minutes * NS_PER_MINUTE), scratch)
    finally:
        if not done.violations:
            shutil.rmtree(scratch)
    for line in done.violations:
        note(f"pipeline: {line}")
    return {
        "seconds": _seconds_since(began_ns),
        "seeds": done.seeds,
        "steps": done.runs,
        "faults": dict(sorted(done.faults.items())),
        "failed_runs": done.failed_runs,
        "rows": done.rows,
        "violations": len(done.violations),
        "violated": done.violations,
    }


def both(seed: int, minutes: float, keep: Path | None) -> dict[str, Any]:
    began_ns = now_ns()
    with Simulated(seed, minutes, politely=True) as campaign:
        report = {"real": real(seed, minutes, keep, campaign)}
        if violations(report):
            campaign.stop()
            return report
        return {"simulated": campaign.tally() | {"seconds": _seconds_since(began_ns)}, **report}


def violations(report: dict[str, Any]) -> int:
    return sum(part["violations"] for part in report.values())


def show(report: dict[str, Any], output: str) -> None:
    if output == "json":
        show_json(report)
        return
    names = [*ROWS, *sorted({name for part in report.values() for name in part} - {*ROWS, "violated", "network"})]
    rows: list[list[Any]] = []
    for name in names:
        rows.append([name.replace("_", " "), *(_cell(part.get(name)) for part in report.values())])
        if name == "faults":
            kinds = sorted({kind for part in report.values() for kind in part.get("faults", {})})
            rows += [[f"  {kind}", *(part.get("faults", {}).get(kind) for part in report.values())] for kind in kinds]
    show_table(["what", *report], rows)
    say(f"{violations(report)} violations")


def _scratch(keep: Path | None) -> Path:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="leasehold-soak-", dir=keep))


def _cell(value: Any) -> Any:
    return sum(value.values()) if isinstance(value, dict) else value


def _seconds_since(began_ns: int) -> float:
    return round((now_ns() - began_ns) / SECOND_NS, 1)


def _ended(*_: object) -> NoReturn:
    raise SystemExit(143)  # by the stack, so that nothing is left running


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        note("interrupted; what it had done is said above")
        sys.exit(130)
