"""Write transactions and queries of several processes, at the leader."""
