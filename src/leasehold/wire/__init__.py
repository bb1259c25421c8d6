"""What crosses a process border: the ports of the runtimes and their real implementations."""

import os

# gRPC, which reads this as it is imported, would tell the terminal of every connection that ends; what counts
# reaches callers as errors.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
