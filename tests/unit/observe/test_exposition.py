"""Merging several brokers' metrics into one text."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from towpath.observe.exposition import merge


def broker_text(value: float) -> str:
    registry = CollectorRegistry()
    Gauge("plain", "No labels, with { and space", registry=registry).set(value)
    labelled = Gauge("labelled", "Labels", ("api",), registry=registry)
    labelled.labels('odd "}{ value').set(value)
    labelled.labels("lines\n\u2028\x85\x0b\x1c end").set(value)
    Histogram("latency_seconds", "Buckets", registry=registry, buckets=(1.0,)).observe(value)
    return generate_latest(registry).decode()


def test_every_sample_survives_with_its_broker() -> None:
    texts = {1: broker_text(1), 2: broker_text(2)}
    merged = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(merge(texts))
        for sample in family.samples
    }
    for broker_id, text in texts.items():
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = {**sample.labels, "broker": str(broker_id)}
                assert merged[(sample.name, tuple(sorted(labels.items())))] == sample.value


def test_families_stay_together() -> None:
    families = [f.name for f in text_string_to_metric_families(merge({1: broker_text(1), 2: ""}))]
    assert len(families) == len(set(families))


def test_missing_brokers_are_down() -> None:
    lines = merge({1: "", 2: None}).splitlines()
    assert 'towpath_broker_up{broker="1"} 1.0' in lines
    assert 'towpath_broker_up{broker="2"} 0.0' in lines


def test_samples_with_time_and_empty_labels() -> None:
    text = "# HELP a x\n# TYPE a gauge\na{} 1 1700000000000\na 2\n"
    assert 'a{broker="7"} 1 1700000000000\na{broker="7"} 2\n' in merge({7: text})
