"""What `leasehold doctor` tries, from the host of one process.

| module | tries |
| --- | --- |
| `own` | the files of the process, its addresses, and how many files it may open |
| `gossip` | gossip with each seed and with each member that a seed knows: both ways, with long datagrams too |
| `others`, `network` | a connection to each coordinator and node: the way there, TLS, and whose certificate they show |
| `clocks` | how fast the clock of each coordinator runs as seen from here |

`examine` does it all. Nothing is changed anywhere. In gossip the doctor claims nothing about itself or any member, so
no member remembers it.
"""
