"""Found by Spark: makes format("leasehold") known without registration."""
