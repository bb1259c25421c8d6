"""Codes of commands and processes."""

from leasehold.error_codes import ErrorCode
from leasehold.error_guide.entry import CHECK_FAILED, REFUSED, UNKNOWN, UNREACHABLE, USAGE, GuideEntry

PROCESSES = {
    ErrorCode.BAD_CONFIG: GuideEntry(
        "a configuration file can't be read, or a key in it is wrong",
        "correct the key that the message names",
        USAGE,
    ),
    ErrorCode.BAD_SETTINGS: GuideEntry(
        "a flag, an environment variable or an argument is not allowed",
        "correct the value that the message names",
        USAGE,
    ),
    ErrorCode.BUSY: GuideEntry(
        "a limit on simultaneous requests is reached",
        "try again in a moment",
        REFUSED + UNKNOWN,
    ),
    ErrorCode.CHECK_FAILED: GuideEntry("a check found a problem", "correct what the message names", CHECK_FAILED),
    ErrorCode.DID_NOT_START: GuideEntry(
        "a process ended right after its start", "read its log; the hint names the file"
    ),
    ErrorCode.INTERNAL: GuideEntry(
        "a process failed on a request by a defect in Leasehold",
        "read the log of that process and report the error",
        REFUSED + UNKNOWN,
    ),
    ErrorCode.NEEDS_YES: GuideEntry(
        "the command needs a confirmation, and there is no terminal to ask on",
        "run it with --yes, or on a terminal",
        USAGE,
    ),
    ErrorCode.NOT_CONFIRMED: GuideEntry("the confirmation was not given", "run it again and answer y"),
    ErrorCode.NOT_LEADER: GuideEntry(
        "the coordinator does not lead, and nothing was done",
        "ask another coordinator, or try again in a moment",
    ),
    ErrorCode.NOT_PAUSED: GuideEntry("the process is not paused", "no action is needed"),
    ErrorCode.NOT_RUNNING: GuideEntry("the process does not run", "start it with `leasehold chaos start NAME`"),
    ErrorCode.NOT_SERVING: GuideEntry(
        "the node does not serve within the timeout",
        "read its log: `leasehold logs NAME`",
        UNREACHABLE,
    ),
    ErrorCode.NOT_WHOLE: GuideEntry(
        "the node serves, but copies of its segments are still missing after the timeout",
        "start the nodes that `leasehold status` shows as away, or wait longer",
        UNREACHABLE,
    ),
    ErrorCode.PAUSED: GuideEntry("the process is already paused", "resume it with `leasehold chaos resume NAME`"),
    ErrorCode.PORT_IN_USE: GuideEntry(
        "another process listens on the address",
        "stop that process or choose another port; port 0 chooses a free port",
        USAGE,
    ),
    ErrorCode.REFUSED: GuideEntry("the request was refused, and nothing changed", "correct what the message names"),
    ErrorCode.RUNNING: GuideEntry("the process or cluster already runs", "use it, or choose another --dir"),
    ErrorCode.TOO_SLOW: GuideEntry("a request did not arrive completely in time", "send the request again", UNKNOWN),
    ErrorCode.UNKNOWN: GuideEntry(
        "the outcome of the request is not known: it may have happened",
        "look before you do it again; `leasehold sql --id ID` asks for the outcome of a statement",
        UNKNOWN,
    ),
    ErrorCode.UNREACHABLE: GuideEntry(
        "no process answers at the address",
        "check that the process runs and can be reached",
        UNREACHABLE,
    ),
}
