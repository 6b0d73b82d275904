"""Topics: their records, settings and life."""
