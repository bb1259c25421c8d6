"""The simulator: production core and runtimes under virtual time, network and faults."""
