"""How a node that starts, or was away, gets to where the cluster is."""
