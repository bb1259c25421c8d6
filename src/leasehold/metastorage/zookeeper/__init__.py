"""ZooKeeper as the engine of a replicated log, by way of kazoo (docs/design.md, "Meta storage").

| file | holds |
| --- | --- |
| `layout` | which node a key is |
| `transaction` | a swap as a transaction, and what its answer means |
| `failures` | what an error says about a request: whether it happened, and whether it can happen later |
| `status` | what a member tells about itself |
| `releases` | which releases of ZooKeeper are refused, and which are warned about |
| `handler`, `connection` | one connection to one member, on a thread of kazoo |
| `shared_run` | confirmations and connections that several requests share |
| `client` | requests and watches by way of any member |
| `store` | the port `LogStore` |
"""
