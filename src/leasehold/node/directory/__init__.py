"""A node's directory while nothing is served: looked at, reset, adopted, exported."""
