"""Turns of threads that decode and encode rows.

Such work holds the interpreter lock for much of its time. With a hundred threads at it, the thread of the event loop,
which renews the lease, waited for that lock for a second at a time. So few threads do such work at once. A thread has
its turn for one batch, some milliseconds, and gives it back before it sends anything or waits for a client, a peer, or
room in memory.
"""

import os
import threading
from typing import Final

from leasehold.limits.flight import FLIGHT_CODING_TURNS_MIN

CODING_TURNS: Final = threading.BoundedSemaphore(max(FLIGHT_CODING_TURNS_MIN, os.cpu_count() or 1))
"""Held by a thread while it decodes or encodes a batch. No thread takes two."""
