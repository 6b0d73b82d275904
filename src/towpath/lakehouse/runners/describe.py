"""What Spark's UI shows for a run."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.lakehouse.plan import Job

TITLES_MAX = 3


def describe(jobs: Sequence[Job]) -> str:
    """The first few jobs by topic and offsets, and how many more there are."""
    titles = ", ".join(job.title for job in jobs[:TITLES_MAX])
    more = len(jobs) - TITLES_MAX
    return f"{titles} +{more} more" if more > 0 else titles
