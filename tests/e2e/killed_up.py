"""`leasehold up --nodes 1` that kills itself: `killed_up DIRECTORY STEP COORDINATORS` as it is about to take that step.

A step is a change of the directory, the start of a process, or the first look for an address. With an empty STEP it
takes all of them, and prints them.
"""

import os
import signal
import sys
from pathlib import Path

from leasehold.local.processes import LocalCluster

CHANGES = {"os.mkdir", "os.rename", "os.posix_spawn"}
directory, fatal = Path(sys.argv[1]), sys.argv[2]
taken: list[str] = []


def hook(event: str, arguments: tuple[object, ...]) -> None:
    if event not in CHANGES and event != "open":
        return
    what = str(arguments[0])
    if event == "open" and not what.startswith(str(directory)):
        return
    if event == "open" and not int(str(arguments[2])) & os.O_ACCMODE and not what.endswith("/address"):
        return
    step = f"{event} {what.removeprefix(str(directory))}"
    if event == "os.posix_spawn":
        step += f" {sum(one.startswith(event) for one in taken) + 1}"
    if step not in taken:
        taken.append(step)
        if step == fatal:
            os.kill(os.getpid(), signal.SIGKILL)


sys.addaudithook(hook)
LocalCluster(directory).up(1, int(sys.argv[3]))
sys.stdout.write("\n".join(taken))
