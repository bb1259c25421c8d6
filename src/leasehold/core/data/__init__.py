"""The data plane: how a write, a copy and a scan proceed, written once for production and for the simulator.

Each of them is a coroutine: its steps in their order, without I/O of its own. What it needs of the world comes in
through ports: `runtime` for time and for what runs beside it, and those that its module names for disks, peers and
replicas.
"""
