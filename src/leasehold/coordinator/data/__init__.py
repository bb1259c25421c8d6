"""Write `transactions`, and `queries` whose parts several processes read, at the leader."""
