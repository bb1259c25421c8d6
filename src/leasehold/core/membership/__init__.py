"""Which processes are nodes of the cluster: ids, proofs, admission, removal, generations.

| question | module |
| --- | --- |
| how a node gets its id and joins | `identity` (node), `admission` (leader) |
| who holds the cluster key | `proofs` |
| which process speaks for a node | `speaker` |
| which nodes have finished recovery | `topology` |
| how a node is removed | `removal` |
| how a cluster goes on after its newest meta storage is lost | `generations` |
"""
