"""The replicated log: which entry follows which, and whether an append has happened.

Several coordinators share one log, kept by an engine with linearizable compare-and-swap. A transaction is decided on a
replica at the head, appended to the log, and only then applied, published and answered. Invariants:

- INV-LOG-1: replicas at one revision have one lineage and one digest.
- INV-LOG-2: an acknowledged transaction is in the log exactly once, at the revision in its answer.
- INV-LOG-3: nothing that was decided under an ended term is appended after the next leader has read the head.

| file | holds |
| --- | --- |
| `entry` | entries, positions, the chain of hashes, what follows a position |
| `append` | the life of one append, until it is known whether it happened |
| `leadership` | the leader record: who beats it, who may take it |
"""
