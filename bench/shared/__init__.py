"""What the suites that are held against Spark have in common."""
