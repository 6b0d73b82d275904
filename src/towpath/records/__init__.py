"""Record batches: Kafka's message format v2, the only unit of data."""
