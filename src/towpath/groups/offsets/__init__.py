"""Committed offsets of groups: writing many at a time, reading, removing."""
