"""Which offsets of a topic a plan may have, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.query.test_topic_queries import write

from towpath.config.settings import Settings
from towpath.reading.index import at_one_moment
from towpath.reading.topic import (
    NoSuchTopic,
    OffsetsAhead,
    OffsetsGone,
    Span,
    TopicPlan,
    plan_topic,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`orders` has the offsets 2 to 4."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("topic-plans") / "data")
    write(settings, *[("orders", b"%d" % number) for number in range(5)])
    write(settings, ("others", b"x"))
    write(settings, ("orders", b"5"), removed=2)
    path = settings.metadata_path()
    assert path is not None
    return path


def plan(store: Path, spans: dict[int, Span] | None, name: str = "orders") -> TopicPlan:
    return at_one_moment(store, lambda reader: plan_topic(reader, name, spans))


@pytest.mark.parametrize(
    ("span", "bounds"),
    [
        (None, (2, 6)),
        (Span(), (2, 6)),
        (Span(start=3), (3, 6)),
        (Span(end=4), (2, 4)),
        (Span(3, 5), (3, 5)),
        (Span(6, 6), (6, 6)),
        (Span(0, 0), (0, 0)),
    ],
)
def test_spans(store: Path, span: Span | None, bounds: tuple[int, int]) -> None:
    (found,) = plan(store, None if span is None else {0: span}).partitions
    assert (found.partition, found.start, found.end) == (0, *bounds)
    assert sum(part.end - part.start for part in found.parts) == bounds[1] - bounds[0]


@pytest.mark.parametrize(
    ("name", "spans", "failure", "message"),
    [
        ("nothing", None, NoSuchTopic, "no topic 'nothing'"),
        ("orders", {1: Span()}, NoSuchTopic, "has 1 partitions, no number 1"),
        ("orders", {0: Span(start=1)}, OffsetsGone, "begins at offset 2; 1 was asked for"),
        ("orders", {0: Span(end=7)}, OffsetsAhead, "ends at offset 6; 7 was asked for"),
    ],
)
def test_what_cannot_be_planned(
    store: Path, name: str, spans: dict[int, Span] | None, failure: type[Exception], message: str
) -> None:
    with pytest.raises(failure, match=message):
        plan(store, spans, name)
