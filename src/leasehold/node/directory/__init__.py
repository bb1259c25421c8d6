"""A node's directory while it serves nothing.

| question | module |
| --- | --- |
| looked at, checked, repaired | `standalone` |
| reset | `reset`, `aside` |
| a copy adopted | `adoption` |
| a segment exported | `export` |
| a large vault checked | `scrub` |
"""
