"""The metadata store: where offsets, locations, topics and leases live."""
