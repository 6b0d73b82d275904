"""Plans as Spark's partitions."""

from __future__ import annotations

import os

from pyspark.sql.datasource import InputPartition

from pyspark_towpath.read_options import ReadOptions
from towpath.reading.slice_rows import Wanted
from towpath.reading.slices import slices_of
from towpath.reading.topic import TopicPlan


class SlicePartition(InputPartition):
    """A slice of a plan; its `value` is the slice."""


def slices(options: ReadOptions, wanted: Wanted, plan: TopicPlan) -> list[InputPartition]:
    """The plan without what is too old or too new, for as many workers as are asked for, or as this
    machine has cores."""
    times = wanted.times
    partitions = plan.partitions
    if times is not None:
        partitions = tuple(
            type(each)(
                each.partition,
                each.start,
                each.end,
                tuple(part for part in each.parts if times.may_hold(part)),
            )
            for each in partitions
        )
    workers = options.workers or os.cpu_count() or 1
    return [SlicePartition(part) for part in slices_of(partitions, workers)]
