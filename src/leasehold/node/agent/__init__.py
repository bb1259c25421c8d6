"""The agent: a node's identity, view and lease, on one event loop.

| question | module |
| --- | --- |
| the life of a process | `agent` |
| joining | `join`, `remedies` |
| finding the leader | `coordinators` |
| the view that it serves from | `projection`, `published` |
| recovery | `recovery` |
| reports to the leader | `outbox` |
"""
