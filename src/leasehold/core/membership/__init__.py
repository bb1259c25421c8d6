"""Which processes are nodes of the cluster: ids, proofs, admission, removal, generations."""
