"""What people ask of a leader: `logins`, and an `overview` of the cluster (SHOW, status, receipts)."""
