"""What crosses a process border: the ports of the runtimes and their real implementations."""
