"""The Spark connector: format("leasehold")."""
