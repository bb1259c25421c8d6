"""Everything between processes and the system: the ports of the runtimes, and their real implementations."""

import os

# gRPC reads this when it is imported. Otherwise it would write to the terminal for every connection that ends, and to a
# server's log for each compressed call, however many a stranger sends. Callers get what matters as errors.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# gRPC's own handlers around fork can abort the child of a process with an open channel. We need none: `wire.blocking`
# makes a new channel where the pid has changed.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
