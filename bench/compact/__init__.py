"""The benchmark of the data pipeline: topics into tables, beside Spark's own way."""
