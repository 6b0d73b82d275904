"""Every metric of the broker, in one place. Names carry their unit as a suffix.

A `Metrics` belongs to one broker and one registry, so that several brokers can live in one process
in the simulation.
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

# A second series for each counter and histogram, which nobody asks for.
disable_created_metrics()  # type: ignore[no-untyped-call]

LATENCY_BUCKETS_SECONDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
SIZE_BUCKETS_BYTES = tuple(float(4**n) for n in range(4, 15))


class Metrics:
    """The broker's counters, gauges and histograms."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        r = self.registry

        def seconds(name: str, text: str, labels: tuple[str, ...] = ()) -> Histogram:
            return Histogram(name, text, labels, registry=r, buckets=LATENCY_BUCKETS_SECONDS)

        # Kafka front end
        self.connections = Gauge("towpath_connections", "Open Kafka connections", registry=r)
        self.requests = Counter(
            "towpath_requests", "Requests by API", ("api",), registry=r
        )  # exposed as towpath_requests_total
        self.request_errors = Counter(
            "towpath_request_errors", "Error codes answered, by API", ("api", "error"), registry=r
        )
        self.malformed_frames = Counter(
            "towpath_malformed_frames", "Connections closed for a malformed frame", registry=r
        )
        self.produce_seconds = seconds("towpath_produce_latency_seconds", "Produce requests")
        self.fetch_seconds = seconds(
            "towpath_fetch_latency_seconds", "Fetch requests, without the time of their long poll"
        )
        self.request_seconds = seconds(
            "towpath_request_latency_seconds", "All requests, by API", ("api",)
        )
        self.produced_bytes = Counter(
            "towpath_produced_bytes", "Bytes of acknowledged batches", registry=r
        )
        self.fetched_bytes = Counter(
            "towpath_fetched_bytes", "Bytes of batches sent to consumers", registry=r
        )
        self.inflight_bytes = Gauge(
            "towpath_inflight_request_bytes", "Request bytes being worked on", registry=r
        )
        # WAL
        self.wal_flush_bytes = Histogram(
            "towpath_wal_flush_size_bytes",
            "WAL object sizes",
            registry=r,
            buckets=SIZE_BUCKETS_BYTES,
        )
        self.wal_flush_seconds = seconds(
            "towpath_wal_flush_latency_seconds", "From the start of a PUT to its commit"
        )
        self.wal_flush_failures = Counter(
            "towpath_wal_flush_failures", "Flushes that were not committed", ("stage",), registry=r
        )
        self.commit_retries = Counter(
            "towpath_commit_retries", "Commits repeated after a conflict", registry=r
        )
        self.buffered_bytes = Gauge(
            "towpath_buffered_bytes", "Produced bytes that are not committed yet", registry=r
        )
        self.duplicate_batches = Counter(
            "towpath_duplicate_batches", "Idempotent batches that were there already", registry=r
        )
        # Groups; heartbeats and commits are counted as requests, the lag is in `group_lag.py`
        self.group_rebalances = Counter(
            "towpath_group_rebalances", "New generations or epochs of groups", ("type",), registry=r
        )
        self.group_committed_offsets = Counter(
            "towpath_group_committed_offsets", "Offsets of partitions committed", registry=r
        )
        # Caches
        self.cache_hits = Counter("towpath_cache_hits", "Cache hits", ("cache",), registry=r)
        self.cache_misses = Counter("towpath_cache_misses", "Cache misses", ("cache",), registry=r)
        self.cache_bytes = Gauge("towpath_cache_size_bytes", "Cache sizes", ("cache",), registry=r)
        self.damaged_objects = Counter(
            "towpath_damaged_objects",
            "Reads that found a committed object missing or damaged",
            registry=r,
        )
        # Stores
        self.metadata_seconds = seconds(
            "towpath_metadata_latency_seconds", "Metadata operations", ("operation",)
        )
        self.metadata_errors = Counter(
            "towpath_metadata_errors", "Failed metadata operations", ("operation",), registry=r
        )
        self.object_seconds = seconds(
            "towpath_object_store_latency_seconds", "Object store operations", ("operation",)
        )
        self.object_errors = Counter(
            "towpath_object_store_errors",
            "Failed object store operations",
            ("operation",),
            registry=r,
        )
        self.object_bytes = Counter(
            "towpath_object_store_bytes", "Object store bytes", ("operation",), registry=r
        )
        # Collection
        self.gc_orphan_blocks = Gauge(
            "towpath_gc_orphan_blocks", "Condemned staging blocks waiting for deletion", registry=r
        )
        self.gc_pending_deletes = Gauge(
            "towpath_gc_pending_deletes", "WAL objects waiting for their grace to end", registry=r
        )
        self.gc_deleted_objects = Counter(
            "towpath_gc_deleted_objects", "Objects deleted", ("collector",), registry=r
        )
        self.gc_failures = Counter(
            "towpath_gc_failures", "Collector rounds that failed", ("collector",), registry=r
        )
        # Pipeline
        self.compaction_failures = Counter(
            "towpath_compaction_failures",
            "Rounds or topics of the pipeline that failed",
            registry=r,
        )
        self.compacted_records = Counter(
            "towpath_compacted_records", "Records brought into tables", ("topic",), registry=r
        )
        self.compacted_bytes = Counter(
            "towpath_compacted_bytes", "WAL bytes brought into tables", ("topic",), registry=r
        )
        self.compaction_backlog_bytes = Gauge(
            "towpath_compaction_backlog_bytes", "WAL bytes that are not in tables yet", registry=r
        )
        self.compaction_backlog_files = Gauge(
            "towpath_compaction_backlog_files", "Replaced data files not deleted yet", registry=r
        )
