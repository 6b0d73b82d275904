"""confluent-kafka's AdminClient: topics, partitions, configs, records, and how each is refused."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from tests.integration.conftest import Broker
from tests.integration.harness.admin import (
    REQUEST_TIMEOUT_S,
    admin_client,
    create_topic,
    end_offset,
    partition_count,
    unique_name,
)
from tests.integration.harness.clients import Sent, consume, produce_all, producer
from tests.integration.harness.confluent_admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from tests.integration.harness.waiting import wait_until


def done(futures: dict[Any, Future[Any]]) -> Any:
    """The result of a call for one thing."""
    (future,) = futures.values()
    return future.result(REQUEST_TIMEOUT_S)


def refused(futures: dict[Any, Future[Any]]) -> int:
    """The error code a call for one thing was refused with."""
    with pytest.raises(KafkaException) as refusal:
        done(futures)
    code: int = refusal.value.args[0].code()
    return code


def topic_configs(bootstrap: str, topic: str) -> dict[str, Any]:
    """Every config entry of a topic by name."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries: dict[str, Any] = done(admin_client(bootstrap).describe_configs([resource]))
    return entries


def test_create_with_configs_and_delete(bootstrap: str) -> None:
    admin = admin_client(bootstrap)
    topic = create_topic(bootstrap, partitions=3, config={"retention.ms": "123456"})
    assert partition_count(admin, topic) == 3
    entry = topic_configs(bootstrap, topic)["retention.ms"]
    assert (entry.value, entry.source) == ("123456", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    done(admin.delete_topics([topic]))
    wait_until(lambda: partition_count(admin, topic) == 0, f"{topic} gone")
    assert refused(admin.delete_topics([topic])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_deleted_topic_starts_empty_when_made_again(bootstrap: str) -> None:
    admin = admin_client(bootstrap)
    topic = create_topic(bootstrap)
    produce_all(producer(bootstrap), topic, [Sent(b"old")] * 5)
    done(admin.delete_topics([topic]))
    wait_until(lambda: partition_count(admin, topic) == 0, f"{topic} gone")
    create_topic(bootstrap, topic)
    wait_until(lambda: end_offset(bootstrap, topic) == 0, "an empty log")
    assert produce_all(producer(bootstrap), topic, [Sent(b"new")]) == [0]
    assert consume(bootstrap, topic, 1)[0].value() == b"new"


def test_validate_only_creates_nothing(bootstrap: str) -> None:
    admin = admin_client(bootstrap)
    topic = unique_name()
    done(admin.create_topics([NewTopic(topic, 2)], validate_only=True))
    assert partition_count(admin, topic) == 0
    bad = NewTopic(topic, 2, config={"retention.ms": "many"})
    assert refused(admin.create_topics([bad], validate_only=True)) == KafkaError.INVALID_CONFIG


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic("bad/name", 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("..", 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic(unique_name("none"), 0), KafkaError.INVALID_PARTITIONS),
        (NewTopic(unique_name("none"), 1, config={"no.such": "1"}), KafkaError.INVALID_CONFIG),
        (
            NewTopic(unique_name("none"), 1, config={"cleanup.policy": "burn"}),
            KafkaError.INVALID_CONFIG,
        ),
        (
            NewTopic(unique_name("none"), 1, config={"max.message.bytes": "-5"}),
            KafkaError.INVALID_CONFIG,
        ),
    ],
    ids=["slash", "dots", "long", "no partitions", "unknown config", "bad policy", "negative size"],
)
def test_bad_topics_are_refused(bootstrap: str, new: Any, code: int) -> None:
    admin = admin_client(bootstrap)
    assert refused(admin.create_topics([new])) == code
    assert partition_count(admin, new.topic) == 0


def test_an_existing_topic_is_refused(bootstrap: str) -> None:
    topic = create_topic(bootstrap, partitions=2)
    admin = admin_client(bootstrap)
    assert refused(admin.create_topics([NewTopic(topic, 5)])) == KafkaError.TOPIC_ALREADY_EXISTS
    assert partition_count(admin, topic) == 2


def test_one_bad_topic_does_not_spoil_the_others(bootstrap: str) -> None:
    good, bad = unique_name(), "bad name"
    futures = admin_client(bootstrap).create_topics([NewTopic(good, 1), NewTopic(bad, 1)])
    futures[good].result(REQUEST_TIMEOUT_S)
    assert refused({bad: futures[bad]}) == KafkaError.TOPIC_EXCEPTION


def test_create_partitions(bootstrap: str) -> None:
    admin = admin_client(bootstrap)
    topic = create_topic(bootstrap, partitions=2)
    produce_all(producer(bootstrap), topic, [Sent(b"kept", partition=1)])
    done(admin.create_partitions([NewPartitions(topic, 3)], validate_only=True))
    assert partition_count(admin, topic) == 2
    done(admin.create_partitions([NewPartitions(topic, 4)]))
    wait_until(lambda: partition_count(admin, topic) == 4, "four partitions")
    produce_all(producer(bootstrap), topic, [Sent(b"new", partition=3)])
    assert consume(bootstrap, topic, 1, partition=3)[0].value() == b"new"
    assert consume(bootstrap, topic, 1, partition=1)[0].value() == b"kept"


@pytest.mark.parametrize("total", [1, 2])
def test_partitions_never_become_fewer(bootstrap: str, total: int) -> None:
    topic = create_topic(bootstrap, partitions=2)
    futures = admin_client(bootstrap).create_partitions([NewPartitions(topic, total)])
    assert refused(futures) == KafkaError.INVALID_PARTITIONS


def test_partitions_of_an_unknown_topic(bootstrap: str) -> None:
    futures = admin_client(bootstrap).create_partitions([NewPartitions(unique_name(), 3)])
    assert refused(futures) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_describe_configs_has_values_sources_and_defaults(bootstrap: str) -> None:
    configs = topic_configs(
        bootstrap, create_topic(bootstrap, config={"cleanup.policy": "compact"})
    )
    assert configs["cleanup.policy"].value == "compact"
    assert configs["retention.ms"].value == "604800000"
    assert configs["retention.ms"].is_default
    assert configs["max.message.bytes"].value == "1048588"
    assert configs["message.timestamp.type"].value == "CreateTime"
    assert not any(entry.is_sensitive for entry in configs.values())


def test_describe_configs_of_an_unknown_topic(bootstrap: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, unique_name())
    assert refused(admin_client(bootstrap).describe_configs([resource])) == (
        KafkaError.UNKNOWN_TOPIC_OR_PART
    )


def test_incremental_alter_sets_and_deletes_one(bootstrap: str) -> None:
    topic = create_topic(bootstrap, config={"retention.bytes": "1000", "segment.bytes": "2000000"})
    admin = admin_client(bootstrap)

    def alter(name: str, value: str | None, operation: Any) -> Any:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])

    change = alter("retention.ms", "777", AlterConfigOpType.SET)
    done(admin.incremental_alter_configs([change], validate_only=True))
    assert topic_configs(bootstrap, topic)["retention.ms"].value == "604800000"
    done(admin.incremental_alter_configs([change]))
    wait_until(lambda: topic_configs(bootstrap, topic)["retention.ms"].value == "777", "altered")
    assert topic_configs(bootstrap, topic)["retention.bytes"].value == "1000"
    reset = alter("retention.bytes", None, AlterConfigOpType.DELETE)
    done(admin.incremental_alter_configs([reset]))
    wait_until(lambda: topic_configs(bootstrap, topic)["retention.bytes"].value == "-1", "reset")
    append = alter("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    done(admin.incremental_alter_configs([append]))
    wait_until(
        lambda: topic_configs(bootstrap, topic)["cleanup.policy"].value == "delete,compact", "both"
    )
    bad = alter("retention.ms", "soon", AlterConfigOpType.SET)
    assert refused(admin.incremental_alter_configs([bad])) == KafkaError.INVALID_CONFIG
    assert topic_configs(bootstrap, topic)["retention.ms"].value == "777"


def test_incremental_alter_of_an_unknown_topic(bootstrap: str) -> None:
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, unique_name(), incremental_configs=[entry])
    assert refused(admin_client(bootstrap).incremental_alter_configs([resource])) == (
        KafkaError.UNKNOWN_TOPIC_OR_PART
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_alter_configs_replaces_all(bootstrap: str) -> None:
    topic = create_topic(bootstrap, config={"retention.bytes": "1000"})
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.ms": "888"})
    done(admin_client(bootstrap).alter_configs([resource]))
    wait_until(lambda: topic_configs(bootstrap, topic)["retention.ms"].value == "888", "altered")
    assert topic_configs(bootstrap, topic)["retention.bytes"].value == "-1"


def test_an_altered_size_limit_takes_effect(bootstrap: str) -> None:
    topic = create_topic(bootstrap, config={"max.message.bytes": "1000"})
    entry = ConfigEntry("max.message.bytes", "5000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    done(admin_client(bootstrap).incremental_alter_configs([resource]))
    wait_until(
        lambda: topic_configs(bootstrap, topic)["max.message.bytes"].value == "5000", "altered"
    )
    assert produce_all(producer(bootstrap), topic, [Sent(b"x" * 2000)]) == [0]


def test_describe_cluster(broker: Broker) -> None:
    cluster = admin_client(broker.bootstrap).describe_cluster().result(REQUEST_TIMEOUT_S)
    assert len(cluster.cluster_id) > 0
    assert [node.port for node in cluster.nodes] == [broker.kafka_port]
    assert cluster.controller.id == cluster.nodes[0].id


def test_describe_topics(bootstrap: str) -> None:
    topic = create_topic(bootstrap, partitions=3)
    described = done(admin_client(bootstrap).describe_topics(TopicCollection([topic])))
    assert described.name == topic
    assert not described.is_internal
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    for partition in described.partitions:
        assert partition.leader.id >= 0
        assert [node.id for node in partition.replicas] == [partition.leader.id]
        assert [node.id for node in partition.isr] == [partition.leader.id]
    # A second topic of another name has another id.
    other = create_topic(bootstrap)
    ids = {
        str(done(admin_client(bootstrap).describe_topics(TopicCollection([name]))).topic_id)
        for name in (topic, other)
    }
    assert len(ids) == 2


def test_describe_an_unknown_topic_does_not_make_it(bootstrap: str) -> None:
    admin = admin_client(bootstrap)
    topic = unique_name("absent")
    futures = admin.describe_topics(TopicCollection([topic]))
    assert refused(futures) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert topic not in admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics


def test_delete_records_moves_the_start(bootstrap: str) -> None:
    admin = admin_client(bootstrap)
    topic = create_topic(bootstrap)
    produce_all(producer(bootstrap), topic, [Sent(b"%d" % i) for i in range(20)])
    deleted = done(admin.delete_records([TopicPartition(topic, 0, 7)]))
    assert deleted.low_watermark == 7
    got = consume(bootstrap, topic, 13, offset=3, auto_offset_reset="earliest")
    assert [message.offset() for message in got] == list(range(7, 20))
    # The start never moves back.
    assert done(admin.delete_records([TopicPartition(topic, 0, 2)])).low_watermark == 7
    # -1 means everything up to the end.
    assert done(admin.delete_records([TopicPartition(topic, 0, -1)])).low_watermark == 20
    assert produce_all(producer(bootstrap), topic, [Sent(b"next")]) == [20]


def test_delete_records_beyond_the_end(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    produce_all(producer(bootstrap), topic, [Sent(b"v")] * 3)
    futures = admin_client(bootstrap).delete_records([TopicPartition(topic, 0, 4)])
    assert refused(futures) == KafkaError.OFFSET_OUT_OF_RANGE
    assert len(consume(bootstrap, topic, 3)) == 3


def test_describe_broker_configs(broker: Broker) -> None:
    admin = admin_client(broker.bootstrap)
    node = admin.describe_cluster().result(REQUEST_TIMEOUT_S).nodes[0]
    entries = done(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node.id))]))
    assert entries["auto.create.topics.enable"].value == "true"
    assert entries["message.max.bytes"].value == "1048588"
