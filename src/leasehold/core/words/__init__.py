"""What every protocol speaks in: messages, records, statements, and how values become bytes.

| question | module |
| --- | --- |
| what processes say to each other | `messages/` |
| what is stored | `records/`, under the keys of `keys` |
| what people ask for in SQL | `statements/` |
| what the meta storage is asked for | `operations` |
| how a record or message becomes bytes | `codec` |
| when a revision was committed | `commit_times` |
| types, literals, durations, bounds of columns | `types`, `literals`, `durations`, `bounds` |
| hashes that two sides compare | `lineage`, `digest` |
"""
