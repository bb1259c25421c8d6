"""A data node: agent, projection, lease, and the Flight server."""
