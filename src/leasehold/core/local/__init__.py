"""Local opens: segment files that a node hands to a reader on its own file system, under a sub-lease.

Theory of operation (docs/decisions/0058-files-are-opened-under-a-sub-lease.md). A reader that proves that it sees the
node's file system is given hard links to the segments of a plan. The node can't look at each read of such a file, so
the reader holds a **sub-lease**: it ends at the instant at which the reader sent its last request, plus what was left
of the node's lease when that was answered. The node answered after the reader had sent, so the sub-lease ends before
the lease (as in INV-LEASE-1). The reader removes the links before that.

While the node lives, it removes the links itself, before it reports a revision that takes something away from that
reader. So once a statement has returned, each node either has removed the links or its lease has ended, and with it all
sub-leases: nobody opens a file (INV-OPEN-1). A file that is open already can be read to its end.

| module | what it does |
| --- | --- |
| `opens` | the node's side: who holds which links until when, and what a view takes away |
| `reads` | the steps of an open, a renewal and a release |
| `links` | the port to the files |
| `sub_lease` | the reader's side |
"""
