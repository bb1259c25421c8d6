"""The protocols as pure state machines: one event in, effects out, time is an argument.

Nothing in here reads a clock, does I/O, draws a random number, locks or logs. The same objects run in
the coordinator, in the nodes and in the simulator.
"""
