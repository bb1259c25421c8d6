"""Write `transactions`, `plans` of scans, searches of the `history`, and `queries` whose parts several processes read,
at the leader."""
