"""Defaults that depend on other settings, brokers of a cluster, and Kafka's names."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from towpath.broker import log_settings
from towpath.config import Settings
from towpath.config.names import ALIASES
from towpath.kafka.services import KafkaSettings


def test_everything_lies_under_the_data_directory(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    assert settings.metadata_path() == tmp_path / "metadata.sqlite"
    assert settings.objects_path() == tmp_path / "objects"
    assert settings.linger_ms == 0


def test_relative_directories_become_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings(data_dir=Path("x")).metadata_url == f"sqlite:///{tmp_path}/x/metadata.sqlite"


def test_other_stores_have_no_path() -> None:
    settings = Settings(metadata_url="memory://", objects_url="s3://bucket/prefix")
    assert settings.metadata_path() is None
    assert settings.objects_path() is None
    assert settings.linger_ms == 250


def test_advertised_host_follows_the_bound_one() -> None:
    assert Settings(kafka_host="10.0.0.1").advertised_host == "10.0.0.1"
    assert Settings(kafka_host="10.0.0.1", advertised_host="b.example").advertised_host == (
        "b.example"
    )
    assert Settings(kafka_host="0.0.0.0").advertised_host not in ("0.0.0.0", "")


def test_each_broker_has_its_own_id_and_ports() -> None:
    settings = Settings(node_id=5, kafka_port=1000, http_port=2000, brokers=3)
    assert [settings.broker_id(i) for i in range(3)] == [5, 6, 7]
    assert settings.broker_kafka_port(2) == 1002
    assert settings.broker_http_port(2) == 2002
    assert Settings(kafka_port=0).broker_kafka_port(1) == 0


def test_settings_do_not_change() -> None:
    settings = Settings()
    with pytest.raises(ValidationError):
        settings.kafka_port = 1


def test_front_end_defaults_agree() -> None:
    settings, front_end = Settings(), KafkaSettings()
    for name in KafkaSettings.__dataclass_fields__:
        assert getattr(settings, name) == getattr(front_end, name), name


def test_every_setting_is_documented_and_every_alias_leads_somewhere() -> None:
    assert all(field.description for field in Settings.model_fields.values())
    assert {known.setting for known in ALIASES.values()} <= set(Settings.model_fields)
    assert not ALIASES.keys() & Settings.model_fields.keys()


def test_kafka_names() -> None:
    settings = Settings(
        node_id=4, rack="r1", log_retention_ms=7_200_000, brokers=2, auto_create_topics_enable=False
    )
    names = settings.kafka_names(1)
    assert names["node.id"] == names["broker.id"] == "5"
    assert names["broker.rack"] == "r1"
    assert names["listeners"] == "PLAINTEXT://127.0.0.1:9093"
    assert names["auto.create.topics.enable"] == "false"
    assert names["log.retention.ms"] == "7200000"
    assert names["log.retention.minutes"] == "120"
    assert names["log.retention.hours"] == "2"
    assert names["message.max.bytes"] == "1048588"
    assert names["log.message.timestamp.after.max.ms"] == "3600000"
    assert list(names) == sorted(names)
    assert all(isinstance(value, str) and "_" not in name for name, value in names.items())


def test_kafka_names_of_unlimited_retention() -> None:
    names = Settings(log_retention_ms=-1).kafka_names()
    assert names["log.retention.hours"] == names["log.retention.ms"] == "-1"
    assert "broker.rack" not in names


def test_zones_are_dealt_out_in_turn() -> None:
    settings = Settings(brokers=5, zone="a,b,c")
    assert [settings.broker_zone(index) for index in range(5)] == ["a", "b", "c", "a", "b"]
    assert [settings.broker_rack(index) for index in range(3)] == ["a", "b", "c"]
    assert settings.kafka_names(1)["broker.rack"] == "b"
    assert log_settings(settings, 4).zone == "b"
    assert Settings(zone="a", rack="r").broker_rack(0) == "r"
    assert (Settings().broker_zone(3), Settings().broker_rack(3)) == ("default", None)


@pytest.mark.parametrize("zone", ["", "a,", ",a", "a,,b", "a b", "a/b", "zone_id=a", "x" * 101])
def test_zones_that_no_client_could_name_are_refused(zone: str) -> None:
    with pytest.raises(ValidationError):
        Settings(zone=zone)
