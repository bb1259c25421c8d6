"""A node's segment files: read, written, compared with the catalog, and put right."""
