"""A node's directory while it serves nothing.

| question | module |
| --- | --- |
| inspection, check, repair | `standalone` |
| reset | `reset`, `aside` |
| adoption of a copy | `adoption` |
| export of a segment | `export` |
| check of a large vault while the node runs | `scrub` |
"""
