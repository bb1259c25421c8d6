"""Where segments are: placement, copies, and what a node's disk should hold."""
