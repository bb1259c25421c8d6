"""What a node serves over Flight: scans, appends, copies for peers."""
