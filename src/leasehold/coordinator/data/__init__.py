"""Write `transactions`, `plans` of scans, and `queries` whose parts several processes read, at the leader."""
