"""Statements at the leader.

| question | module |
| --- | --- |
| parsed, users in turn | `parse_queue`, `preparation` |
| run | `procedures` drives `core/ddl/run.py`; `run_effects` does what it asks for |
| in which order | `turns` |
| shown while they run | `unfinished`, `progress` |
| failed by a fault of ours | `faults` |
"""
