"""etcd as the engine of a replicated log, by way of gRPC (docs/design.md, "Meta storage").

| file | holds |
| --- | --- |
| `protobuf` | the wire format of protobuf, for structs whose annotations carry field numbers |
| `messages` | the messages and methods of etcd that are used |
| `statuses` | what an error of gRPC says about a request: whether it happened, and whether it can happen later |
| `releases` | which releases of etcd are refused, and which are warned about |
| `endpoint` | the connection to one member |
| `client` | requests and watches by way of any member |
| `store` | the port `LogStore` |
"""
