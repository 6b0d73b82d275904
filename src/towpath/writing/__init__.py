"""Writing to topics without a broker: rows become record batches, batches WAL objects, and one
metadata commit makes all objects of a write visible together.

Only the driver of a write reaches the metadata store. Its workers, on whatever machine, need the
object store alone.
"""
