"""The data pipeline: topics become Iceberg tables.

`planner` finds what is due, `jobs` turn it into Parquet on a runner (Spark), `iceberg` commits it
to the table, and `saga` swaps the index, in that order, each step recorded so that any process can
go on with it. It only reads committed index entries; the Kafka path never waits for it.
"""
