"""The Kafka front end: decode, check, answer; it holds no data."""
