"""Where segments are: placement, copies, and what a node's disk should hold.

| question | module |
| --- | --- |
| which nodes hold a bucket | `replication` |
| where a new replica goes | `placement` |
| which segments have too few copies | `copies` |
| what a disk should hold, against what it holds | `reconcile` |
| what nodes report of their files | `reports` |
| which rows a rewrite takes out of files | `rewrite` |
| what dropped tables leave behind | `dropped`, `leftovers` |
| which segments are lost | `lost` |
"""
