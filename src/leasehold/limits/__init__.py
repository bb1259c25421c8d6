"""Every bound of the system, named, with its unit at the end, in a module for each subject.

Durations are integers of nanoseconds, sizes are bytes. `relations` asserts how bounds depend on each other.
"""

from leasehold.limits import relations as relations
