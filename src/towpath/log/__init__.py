"""The log: what every front end sees of storage."""
