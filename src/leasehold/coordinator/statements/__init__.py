"""Statements at the leader.

| question | module |
| --- | --- |
| parsing, users in turn | `execution`, `preparation` |
| running | `procedures` drives `core/ddl/run.py`; `run_effects` carries out its effects |
| order | `turns` |
| what is shown of them | `unfinished`, `progress` |
| unexpected errors | `faults` |
"""
