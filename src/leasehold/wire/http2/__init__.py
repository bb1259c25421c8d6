"""The server's end of HTTP/2 and of gRPC over it, made for peers that may mean harm.

| module | what |
| --- | --- |
| `frames` | how frames are written, and why a connection fails |
| `headers` | header blocks: written without state, read within bounds |
| `streams` | a call as the protocol sees it, and what is borne |
| `outgoing` | what is to be sent: control first, then data as the peer's windows allow |
| `server_end` | bytes in, events out, without I/O |
| `grpc_messages` | messages and statuses of gRPC |
| `calls` | a call as its handler sees it |
| `thread_calls` | the same for a handler on a thread |
| `tls_end` | TLS between two buffers |
| `listening` | the sockets of a server's doors |
| `door_connection` | a connection on an event loop |
| `door_server` | all of them, with their deadlines |
"""
