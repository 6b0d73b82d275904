"""Retention and garbage collection: one file per job."""
