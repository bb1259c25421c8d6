"""Nodes at the leader.

| question | module |
| --- | --- |
| ids and joins | `registration`, `proofs` |
| their streams | `sessions`, `queues`, `snapshots` |
| their leases | `leases` |
| the logical topology | `topology` |
| removal | `removal` |
| keys of their seals | `seals` |
"""
