"""Bounds of processes on one machine: starting and stopping them, their settings, their logs."""

from typing import Final

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

LOCAL_NODES: Final = 3
LOCAL_NODES_MAX: Final = 32
START_WATCH_NS: Final = 2 * SECOND_NS
"""How long a command watches a process that listens: what a coordinator refuses ends it within this time."""
START_WAIT_NS: Final = 300 * SECOND_NS
"""How long a command waits by default until the processes that it starts serve, while they make progress."""
START_STALL_NS: Final = 60 * SECOND_NS
"""A command gives a process up that has neither used CPU time nor written to its log for this long."""
START_TELL_NS: Final = 5 * SECOND_NS
"""How often a command says what it waits for."""
STOP_WAIT_NS: Final = 8 * SECOND_NS
"""How long a process may take to stop in order; then it is killed."""
JAVA_ANSWER_NS: Final = 10 * SECOND_NS
"""How long `java -version` may take."""
END_POLL_NS: Final = 20 * MILLISECOND_NS
"""How often a command looks whether a process has ended."""
DIRECTORY_LOOK_NS: Final = SECOND_NS
"""How often a process looks whether its directory is still there."""
CLUSTER_FILE_BYTES_MAX: Final = 1024 * 1024
"""Of each file that says which processes belong to a cluster on this machine."""
CONFIG_BYTES_MAX: Final = 64 * 1024
CONFIG_SHOWN_MAX: Final = 200
"""Characters of a configured value that an error repeats."""
CONFIG_ADDRESSES_MAX: Final = 64
NODE_WAIT_POLL_NS: Final = 250 * MILLISECOND_NS
REPAIRS_ASKED_NS: Final = SECOND_NS
"""How long a command asks for the progress of repairs while nobody leads: it shows its answer without it."""
LOG_LINE_CHARACTERS_MAX: Final = 16 * 1024
"""A longer log line is cut. The text of a statement, and that of an error, take a quarter of it at most."""
LOG_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of a log file that the process adds to; then the oldest lines go."""
LOG_BYTES_KEPT: Final = 8 * 1024 * 1024
"""Of the newest lines."""
LOG_LOOK_LINES: Final = 256
"""A process looks for the size of its log file after so many lines."""
LOG_REST_MIN_NS: Final = SECOND_NS
"""How long a repeated log line is held back; twice as long each time."""
LOG_REST_MAX_NS: Final = 3600 * SECOND_NS
LOG_LINES_KEPT: Final = 1_024
"""Lines whose repetition a process notices."""
STORE_MEMBERS: Final = 3
"""Of the store that `leasehold up` starts: any one of them may fail."""
HEALTH_TIMEOUT_NS: Final = 5 * SECOND_NS
"""How long `leasehold health` waits for an answer."""
WATCHDOG_FEEDS: Final = 2
"""How often a process feeds the watchdog of systemd within the interval that systemd gives."""
WATCHDOG_USEC_MAX: Final = 86_400 * 1_000_000
"""A longer interval in the environment counts as none."""
SERVICE_WATCHDOG_S: Final = 10
"""In the units of systemd that `leasehold service print` writes, as all of these."""
SERVICE_RESTART_PAUSE_S: Final = 2
SERVICE_STOP_S: Final = 30
"""Until systemd kills a process that was asked to stop."""
SERVICE_ABORT_S: Final = 5
"""The same for a process that has not fed the watchdog."""
SERVICE_FILES_MAX: Final = 65_536
SERVICE_NODE_MEMORY: Final = "4G"
SERVICE_COORDINATOR_MEMORY: Final = "2G"
LOCAL_COORDINATORS: Final = (1, 3, 5)
MALLOC_ARENAS_MAX: Final = 4
"""Heaps of glibc that the threads of a node share. By default there are eight for each core, and each keeps blocks that
were freed in the middle of it."""
MALLOC_MMAP_BYTES: Final = 4 * 1024 * 1024
"""A node gives a larger block of memory back as soon as it is freed."""
MALLOC_TOP_BYTES: Final = 4 * 1024 * 1024
"""A node keeps so many freed bytes for the threads that share an arena of glibc."""
MEMORY_LOOK_NS: Final = 200 * MILLISECOND_NS
"""How often a process looks whether it has grown."""
MEMORY_GROWN_BYTES: Final = 32 * 1024 * 1024
"""If it has grown by this, it gives back what is free, and again after 1, 2, 4 and more looks. It is more than the hash
of a password takes, which the next login needs again."""
MEMORY_LOOKS_MAX: Final = 160
""".. so many at most."""
