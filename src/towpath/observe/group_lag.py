"""The lag of groups as metrics. They are made of the last measurement when metrics are asked for,
so that groups and partitions that are gone leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from towpath.groups.lag import Measured

LABELS = ("group", "topic", "partition")


class GroupLagMetrics(Collector):
    """Families of gauges: `towpath_group_lag_records`, `towpath_group_lag_seconds` and
    `towpath_groups`."""

    def __init__(self, measured: Callable[[], Measured], now_ms: Callable[[], int]) -> None:
        self._measured = measured
        self._now_ms = now_ms

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What was measured last, with the ages of now."""
        measured, now_ms = self._measured(), self._now_ms()
        groups = GaugeMetricFamily(
            "towpath_groups", "Consumer groups by type and state", labels=("type", "state")
        )
        for (kind, state), count in measured.states.items():
            groups.add_metric((kind, state), count)
        records = GaugeMetricFamily(
            "towpath_group_lag_records",
            "Offsets between a group's committed one and the end of the log",
            labels=LABELS,
        )
        seconds = GaugeMetricFamily(
            "towpath_group_lag_seconds",
            "Age of the first record that a group has not read; 0 if there is none",
            labels=LABELS,
        )
        for lag in measured.lags:
            labels = (lag.group_id, lag.topic, str(lag.partition))
            records.add_metric(labels, lag.records)
            if lag.first_unread_ms is not None:
                seconds.add_metric(labels, max(0, now_ms - lag.first_unread_ms) / 1000)
            elif lag.records == 0:
                seconds.add_metric(labels, 0)
        yield from (groups, records, seconds)
