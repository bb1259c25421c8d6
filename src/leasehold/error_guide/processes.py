"""Codes of commands and processes."""

from leasehold.error_codes import ErrorCode
from leasehold.error_guide.entry import CHECK_FAILED, REFUSED, UNKNOWN, UNREACHABLE, USAGE, Entry

PROCESSES = {
    ErrorCode.BAD_CONFIG: Entry(
        "a configuration file can't be read, or a key in it is wrong",
        "correct the key that the message names",
        USAGE,
    ),
    ErrorCode.BAD_SETTINGS: Entry(
        "a flag, an environment variable or an argument is not allowed",
        "correct the value that the message names",
        USAGE,
    ),
    ErrorCode.BUSY: Entry(
        "a limit on simultaneous requests is reached",
        "try again in a moment",
        REFUSED + UNKNOWN,
    ),
    ErrorCode.CHECK_FAILED: Entry("a check found a problem", "correct what the message names", CHECK_FAILED),
    ErrorCode.DID_NOT_START: Entry("a process ended right after its start", "read its log; the hint names the file"),
    ErrorCode.INTERNAL: Entry(
        "a process failed on a request by a defect in Leasehold",
        "read the log of that process and report the error",
        REFUSED + UNKNOWN,
    ),
    ErrorCode.NEEDS_YES: Entry(
        "the command needs a confirmation, and there is no terminal to ask on",
        "run it with --yes, or on a terminal",
        USAGE,
    ),
    ErrorCode.NOT_CONFIRMED: Entry("the confirmation was not given", "run it again and answer y"),
    ErrorCode.NOT_LEADER: Entry(
        "the coordinator does not lead, and nothing was done",
        "ask another coordinator, or try again in a moment",
    ),
    ErrorCode.NOT_PAUSED: Entry("the process is not paused", "no action is needed"),
    ErrorCode.NOT_RUNNING: Entry("the process does not run", "start it with `leasehold chaos start NAME`"),
    ErrorCode.NOT_SERVING: Entry(
        "the node does not serve within the timeout",
        "read its log: `leasehold logs NAME`",
        UNREACHABLE,
    ),
    ErrorCode.NOT_WHOLE: Entry(
        "the node serves, but copies of its segments are still missing after the timeout",
        "start the nodes that `leasehold status` shows as away, or wait longer",
        UNREACHABLE,
    ),
    ErrorCode.PAUSED: Entry("the process is already paused", "resume it with `leasehold chaos resume NAME`"),
    ErrorCode.PORT_IN_USE: Entry(
        "another process listens on the address",
        "stop that process or choose another port; port 0 chooses a free port",
        USAGE,
    ),
    ErrorCode.REFUSED: Entry("the request was refused, and nothing changed", "correct what the message names"),
    ErrorCode.RUNNING: Entry("the process or cluster already runs", "use it, or choose another --dir"),
    ErrorCode.TOO_SLOW: Entry("a request did not arrive completely in time", "send the request again", UNKNOWN),
    ErrorCode.UNKNOWN: Entry(
        "the outcome of the request is not known: it may have happened",
        "look before you do it again; `leasehold sql --id ID` asks for the outcome of a statement",
        UNKNOWN,
    ),
    ErrorCode.UNREACHABLE: Entry(
        "no process answers at the address",
        "check that the process runs and can be reached",
        UNREACHABLE,
    ),
}
