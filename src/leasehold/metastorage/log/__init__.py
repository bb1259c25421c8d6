"""The replicated log of a shared meta storage (docs/design.md, "Meta storage").

| file | holds |
| --- | --- |
| `store` | the port of the engine that keeps the log: a handful of linearizable operations |
| `log` | entries, parts, checkpoints and the leader record as keys of such a store |
| `replica`, `sqlite_replica` | the port of a replica, and a replica in a file |
| `bootstrap` | how a coordinator gets its replica |
| `commands`, `append` | what waits to be appended; an append until it is known whether it happened |
| `head_watch` | wakes a replica that follows another coordinator |
| `campaign` | elections and beats |
| `upkeep` | checkpoints, trimming, orphans, the quota |
| `restore_target` | a new log from a backup |
| `head`, `move` | a log that was moved, or is being filled; a move from or to a log |
| `storage` | all of them as a `MetaStorage` |
"""
