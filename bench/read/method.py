"""How the readers are measured, as their page tells it."""

from __future__ import annotations

METHOD = """\
Every row is held against something measured in the same run, and the ratio is taken within each
run, then the median over the runs; in brackets the least and the greatest. Within a run each value
is the median of several repetitions, in which the systems take turns.

- **Spark read**: `spark.read.format(...).load().write.format("noop").mode("overwrite").save()` of a
  whole topic of 4 partitions, lz4 from the producer, from `load` to the end of the write, in a warm
  session (`local[*]`, 4 GiB heap, everything else as it comes; the same Java for all), which has
  read the topic six times before, from the data directory: `table` is compacted as a whole, `tail`
  not at all, and of `both` the first half is. `kafka + spark` is Spark's Kafka source on Apache
  Kafka with the same records, all seven columns that it has by default (key, value, topic,
  partition, offset, timestamp, timestampType; headers are an option and left out). Ours reads the
  columns that tell the same of a record (key, value, partition, offset, timestamp, and the
  attributes, which have the type of the timestamp; `columns` is an option). *All ten columns* are
  what `format("towpath")` gives without it: headers, producer_id, producer_epoch and base_sequence
  too, held against the same seven of the other side. `kafka + spark, tuned` has large polls and
  fetches and ParallelGC. Before, and not measured, each session counts what it gets: records, bytes
  of values and the sum of all offsets must be those of every record once. MB are keys and values,
  uncompressed. CPU time is that of the driver, its JVM and its Python workers; that of Kafka's
  broker, which the other way also needs, is not counted (`broker_cpu_seconds` in `read.json`). The
  page cache is warm for all.
- **`sql`**: `towpath sql QUERY --output json` in a new process, from its start to its end, against
  a new Python process that imports DuckDB and asks it the same over `read_parquet` of exactly the
  topic's files. Both answers must be the same. The page cache is warm. The filter takes the middle
  half of each partition by offset, and of it the records whose value holds a certain word.
- **Acknowledged to visible**: `towpath up` with its defaults, compaction every five seconds
  included, a topic of 4 partitions that gets 100 records a second, every record counted, from the
  producer's answer on. In `sql` until the first answer of an open connection that has the offset;
  the query is asked again 20 ms after each answer. Held against `compaction.wal.max.age`, which
  readers of the table alone wait for. In a Spark stream (default trigger) until the driver's
  Python holds the record's offset in `foreachBatch`, against the same stream from Spark's Kafka
  source on Apache Kafka.
- **Spark write**: a frame of one column, `value`, written with `format("towpath")` and, the other
  way, with Spark's Kafka sink to Apache Kafka (`acks=all`), both with lz4 to a topic of 4
  partitions. The frame is made in the JVM out of the same text as all records here and cached in
  its memory before, in 4 partitions. The topic must hold every record of every write afterwards.
  What ours has written is synced to the disk before it counts, the other's is left to the kernel.
"""
