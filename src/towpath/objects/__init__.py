"""The object store: where bytes live."""
