"""Layers, spellings and errors of the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from towpath.config import ConfigError, Settings, load_settings
from towpath.config.load import Given


def flag(name: str, value: object) -> Given:
    return Given(name, value, f"flag --set {name}")


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "towpath.yaml"
    path.write_text(text)
    return path


def test_flags_win_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = write(tmp_path, "kafka_port: 1\nhttp_port: 2\nnode_id: 3\n")
    environ = {"TOWPATH_KAFKA_PORT": "11", "TOWPATH_HTTP_PORT": "12"}
    settings = load_settings(file, [flag("kafka_port", "21")], environ).settings
    assert (settings.kafka_port, settings.http_port, settings.node_id) == (21, 12, 3)
    assert settings.num_partitions == 1
    assert settings.origin("kafka_port") == "flag --set kafka_port"
    assert settings.origin("http_port") == "environment TOWPATH_HTTP_PORT"
    assert settings.origin("node_id") == f"file {file}: node_id"
    assert settings.origin("num_partitions") == "default"


def test_environment_names_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "kafka_port: 7\n")
    assert load_settings(environ={"TOWPATH_CONFIG": str(file)}).settings.kafka_port == 7


@pytest.mark.parametrize(
    ("name", "value", "setting", "expected"),
    [
        ("wal.orphan_ttl", "24h", "wal_orphan_ttl_ms", 86_400_000),
        ("wal.orphan_ttl", 5000, "wal_orphan_ttl_ms", 5000),
        ("wal.gc.grace_ms", 1, "wal_gc_grace_ms", 1),
        ("log.retention.hours", "2", "log_retention_ms", 7_200_000),
        ("log.retention.minutes", 3, "log_retention_ms", 180_000),
        ("log.retention.hours", -1, "log_retention_ms", -1),
        ("log.retention.ms", "1", "log_retention_ms", 1),
        ("node.id", 9, "node_id", 9),
        ("broker.id", 9, "node_id", 9),
        ("broker.rack", "r", "rack", "r"),
        ("Kafka-Port", 5, "kafka_port", 5),
        ("routing.enforce_owner", "true", "routing_enforce_owner", True),
        ("auto.create.topics.enable", "false", "auto_create_topics_enable", False),
        ("range_cache_bytes", "2MiB", "range_cache_bytes", 2_097_152),
        ("message.max.bytes", "1.5 KiB", "message_max_bytes", 1536),
        ("linger", "10ms", "linger_ms", 10),
        ("linger_ms", "auto", "linger_ms", 0),
        ("log.level", "WARNING", "log_level", "warning"),
    ],
)
def test_spellings(name: str, value: object, setting: str, expected: object) -> None:
    settings = load_settings(flags=[flag(name, value)], environ={}).settings
    assert getattr(settings, setting) == expected


def test_environment_takes_aliases_too() -> None:
    environ = {"TOWPATH_WAL_ORPHAN_TTL": "1h", "TOWPATH_LOG_RETENTION_HOURS": "1"}
    settings = load_settings(environ=environ).settings
    assert settings.wal_orphan_ttl_ms == settings.log_retention_ms == 3_600_000


def test_smaller_unit_wins_within_one_place(tmp_path: Path) -> None:
    file = write(tmp_path, "log: {retention: {hours: 9, minutes: 8, ms: 7}}\n")
    assert load_settings(file, environ={}).settings.log_retention_ms == 7
    # A later layer wins whatever its unit.
    settings = load_settings(file, [flag("log.retention.hours", 1)], {}).settings
    assert settings.log_retention_ms == 3_600_000


def test_yaml_nesting_and_variables(tmp_path: Path) -> None:
    text = "wal:\n  orphan_ttl: ${TTL}\nkafka.port: ${PORT:-77}\nrack: a-${TTL}-b\n"
    settings = load_settings(write(tmp_path, text), environ={"TTL": "2h"}).settings
    assert settings.wal_orphan_ttl_ms == 7_200_000
    assert settings.kafka_port == 77
    assert settings.rack == "a-2h-b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kafka_prt: 1\n", "unknown setting 'kafka_prt' (file {file}), did you mean 'kafka_port'?"),
        ("a: ${NOT_THERE}\n", "{file}: a uses ${NOT_THERE}, which is not set"),
        ("- a\n", "{file} must hold names and values, not list"),
        ("a: [\n", "{file} is not valid YAML (line 2): "),
        ("kafka_port: 1\nkafka.port: 2\n", "kafka_port is given twice: "),
        ("kafka_port: 70000\n", "kafka_port = 70000 (file {file}: kafka_port): should be less"),
    ],
)
def test_a_bad_file_gets_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_settings(file, environ={})
    assert str(caught.value).startswith(message.replace("{file}", str(file)))
    assert "\n" not in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*No such file"):
        load_settings(tmp_path / "none.yaml", environ={})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kafka_port": "x"}, "kafka_port = x (flag --set kafka_port): should be a valid integer"),
        ({"linger_ms": "5 q"}, "linger_ms = 5 q (flag --set linger_ms): unknown unit 'q'"),
        ({"linger_ms": "1.5ms"}, "linger_ms = 1.5ms (flag --set linger_ms): is not a whole"),
        ({"log_level": "loud"}, "log_level = loud (flag --set log_level): should be 'debug'"),
        ({"metadata_url": "redis://x"}, "metadata_url = redis://x (flag --set metadata_url): must"),
        ({"data_dir": ""}, "data_dir =  (flag --set data_dir): must not be empty"),
        ({"log_retention_ms": 0}, "log_retention_ms must be -1 (for ever) or at least 1"),
        ({"brokers": 3, "kafka_port": 65534}, "kafka_port 65534 leaves no room for 3 brokers"),
        ({"brokers": 2, "metadata_url": "memory://"}, "metadata_url memory:// serves one broker"),
        ({"kafka_port": 9464}, "kafka_port and http_port are both 9464"),
        ({"max_buffer_bytes": "1MiB"}, "flush_max_bytes must not be larger than max_buffer_bytes"),
        ({"node.id": 1, "broker_id": 2, "brokers": 0}, "brokers = 0 (flag --set brokers): should"),
    ],
)
def test_values_out_of_range(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(flags=[flag(name, value) for name, value in given.items()], environ={})
    assert str(caught.value).startswith(message)


def test_unknown_variables_warn_and_change_nothing() -> None:
    loaded = load_settings(environ={"TOWPATH_KAFKA_PROT": "1", "TOWPATH_COMMAND": "x", "HOME": "/"})
    assert loaded.warnings == (
        "unknown variable TOWPATH_KAFKA_PROT is ignored, did you mean 'kafka_port'?",
    )
    assert loaded.settings == Settings()


def test_settings_alone_read_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_KAFKA_PORT", "1")
    assert Settings().kafka_port == 9092
