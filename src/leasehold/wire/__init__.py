"""What crosses a process border: the ports of the runtimes and their real implementations."""

import os

# gRPC, which reads this as it is imported, would tell the terminal of every connection that ends, and the log of a
# server of each compressed call, however many a stranger sends. What counts reaches callers as errors.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# gRPC's own handlers around fork can abort the child of a process with an open channel. Ours need none: a channel is
# made anew where the pid has changed (`wire.blocking`).
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
