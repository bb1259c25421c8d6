"""Answers to the questions that people ask of a cluster: SHOW, DESCRIBE, status and receipts.

Each of them is a function of one catalog and of plain values. Nothing here changes anything.

| module | what it answers |
| --- | --- |
| `relations` | SHOW DATABASES, TABLES, VIEWS and TBLPROPERTIES, DESCRIBE |
| `principals` | SHOW USERS, ROLES and GRANTS |
| `nodes` | the status of each node, SHOW NODES |
| `procedures` | SHOW PROCEDURES |
| `receipts` | the barriers that proceeded |
| `catalog` | which of the above answers a question about the catalog alone, and how long that takes |
| `lookups` | a table or a view by its name, a page of receipts |
| `long_lookups` | which of these take long |
| `rows` | rows, in pages that fit into a message |
"""
