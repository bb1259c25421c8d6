"""The data plane: how a write, a copy and a scan proceed, written once for production and for the simulator.

Each is a coroutine without I/O of its own. The ports are `runtime` for time and tasks, `segment_files` for disks, and
those that its module names for peers and replicas.

| question | file |
| --- | --- |
| who may read a batch | `read_access` |
| which rows a node takes | `write_access` |
| when is a write committed | `commit` |
| which rows are hidden | `hidden_rows` |
| which rows are gone for one query | `cutoff` |
| what every request goes through: cluster, revision, guard | `requests` |
| in which order a scan, an append, its forwarding, a copy proceed | `scans`, `appends`, `forwarding`, `fetches` |
| which peers are silent | `peers` |
| in which order a client reads a plan, and sends the rows of a write | `reader`, `row_sender` |
| where a client's replicas are, and which of them to ask last | `places`, `known` |
| which replica a client asks, and when it asks another one as well | `hedging` |
| how a client asks coordinators: calls, logins, deadlines | `coordinator_calls`, `coordinator_client` |
| what it asks them in several steps | `statement_calls`, `node_removal` |
"""
