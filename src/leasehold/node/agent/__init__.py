"""The agent: a node's identity, view and lease, on one event loop.

| question | module |
| --- | --- |
| its life | `agent` |
| joining | `join`, `remedies` |
| finding the leader | `coordinators` |
| the view that it serves from | `projection`, `published` |
| recovery | `recovery` |
| what it tells the leader of its disk | `outbox` |
"""
