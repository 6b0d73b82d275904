"""Consumer groups: their state in the metadata store, served by any broker."""
