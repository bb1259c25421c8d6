"""Identity, admission, leases, procedures, placement: the runtime around the core."""
