"""The benchmark of consumer groups."""
