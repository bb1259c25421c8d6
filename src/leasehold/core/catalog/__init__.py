"""The catalog: all that the meta storage says, typed, at one revision, and how it follows changes.

| question | module |
| --- | --- |
| what is in the catalog | `catalog` |
| how a revision changes it | `apply` |
| how segments are held | `shelf` |
| what a statement is about to write | `plan` |
| which tables a SELECT reads | `reads` |
"""
