"""How a node that starts, or was away, gets to where the cluster is.

| question | module |
| --- | --- |
| which recovery case is chosen | `case` |
| the way into the logical topology | `machine`, with its events and effects in `events` |
| when a snapshot may replace the vault | `staging` |
| how much history is kept | `retention` |
| what people see of it | `progress` |
"""
