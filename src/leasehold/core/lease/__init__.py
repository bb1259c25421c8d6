"""The lease: a node may serve from its own copy of the catalog, and a leader knows when it no longer can.

| question | module |
| --- | --- |
| may this node serve now | `holder` (`guard`) |
| which node gets a grant | `grantor`, with its events and effects in `grants` |
| when does a barrier proceed | `barrier` |
| what drifting clocks can promise | `drift` |
| which coordinator leads | `leadership` |
| was anything stale served | `audit` |
"""
