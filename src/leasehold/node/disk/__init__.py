"""A node's segment files.

| question | module |
| --- | --- |
| read and written | `segment_files` |
| rows hidden from a batch | `masks` |
| compared with the catalog | `comparison`, `findings` |
| put right | `reconciler`, over `disk_port` |
| deleted slowly | `pace`, `rests` |
| full | `space` |
"""
