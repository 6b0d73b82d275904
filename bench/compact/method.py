"""How the pipeline is measured, as its page tells it."""

from __future__ import annotations

METHOD = """\
Every row is held against something measured in the same run, and the ratio is taken within each
run, then the median over the runs; in brackets the least and the greatest.

- **Compaction**: one round of the pipeline with its default settings (`local[*,4]`) over a topic
  of 4 partitions, from planning to the commit, the median one of three rounds on every side,
  against `kafka + spark`: Apache Kafka holding the same records, read with Spark's Kafka source
  and written with Iceberg's own writer to a table of the same columns (`local[*]`, files as
  catalog, 4 GiB heap, everything else as it comes, which is what a user runs). `kafka + spark,
  tuned` is the same with the fastest settings that were found (one task per partition, no shuffle
  and no sort, zstd level 1 as ours, no statistics of keys and values, large polls and fetches,
  ParallelGC). All sessions use the same Java, are started anew for each shape of records, and
  have just done a smaller topic of them. (The other way gets faster still if its JVM has done
  other shapes before: 75 instead of 66 MB/s with 1 KB records and lz4.) MB are keys and values,
  uncompressed. CPU time is that of the driver, its JVM and its Python workers, children that
  ended included; Kafka's broker, which the other way also needs, is not counted
  (`broker_cpu_seconds` in `compact.json`). Our files are synced to the disk before they count,
  the other's are left to the kernel.
- **Fetch from Parquet**: librdkafka in C reads the topic from offset 0, from a broker process that
  has just started, before and after the compaction; the page cache is warm. What the broker loads
  when it reads its first Parquet file, of another topic, is not in it (`first_fetch` in
  `compact.json`).
- **Commits**: one small data file each, default catalog and upkeep, on a clock that moves on by
  five seconds per commit; medians around each point. The 10th commit is that of a new table,
  measured right after. Small files are not merged meanwhile.
- **Acknowledged to visible**: `towpath up` with its defaults, ten topics with 100 records a second
  each, every record counted: from the producer's answer to the first pyiceberg table whose snapshot
  holds the offset. Half of the time and more is the setting `compaction.wal.max.age` (5 s).
- **Memory**: peak resident memory (shared pages counted in each process) of a round, against that
  of a round over a quarter of the backlog; the Python workers are limited to what they held after a
  tiny backlog and their share of what is given (`RLIMIT_DATA`).
"""
