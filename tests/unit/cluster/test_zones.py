"""Zones: what a `client.id` asks for, and what clients of a zone are shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.cluster.view import REPLICAS_SHOWN_MAX, View
from towpath.cluster.zones import CLIENT_ID_CHARS_MAX, Zones, zone_of
from towpath.metadata.keys.cluster import BrokerRecord

STREAMS = range(400)


def broker(broker_id: int, zone: str | None = None, rack: str | None = None) -> BrokerRecord:
    return BrokerRecord(broker_id, "h", 9000 + broker_id, 1, "test", zone_id=zone, rack=rack)


SIX = [broker(number, "abc"[number % 3]) for number in range(6)]


@pytest.mark.parametrize(
    ("client_id", "zone"),
    [
        ("zone_id=eu-1a", "eu-1a"),
        ("zone_id=eu-1a,app=x", "eu-1a"),
        ("app=x,zone_id=b,team=y", "b"),
        (" zone_id = b , app=x", "b"),
        ("zone_id=a=b", "a=b"),
        ("zone_id=a,zone_id=b", "a"),
        ("rdkafka", None),
        ("my,zone_id,app", None),
        ("zone_id=", None),
        ("zone_id=,app=x", None),
        ("myzone_id=a", None),
        ("ZONE_ID=a", None),
        ("", None),
        (",,=,==", None),
        (None, None),
    ],
)
def test_the_zone_of_a_client_id(client_id: str | None, zone: str | None) -> None:
    assert zone_of(client_id) == zone


def test_an_overlong_client_id_names_no_zone() -> None:
    fits = "zone_id=a," + "x" * (CLIENT_ID_CHARS_MAX - 10)
    assert zone_of(fits) == "a"
    assert zone_of(fits + "x") is None


@given(st.text())
def test_any_client_id_is_read(client_id: str) -> None:
    zone = zone_of(client_id)
    assert zone is None or (zone and zone in client_id)


def test_a_client_of_a_zone_is_shown_the_brokers_there_alone() -> None:
    zones = Zones(SIX)
    for zone, ids in (("a", {0, 3}), ("b", {1, 4}), ("c", {2, 5})):
        view = zones.view(zone)
        assert {b.broker_id for b in view.brokers} == ids
        assert view.controller() == min(ids)
        assert {view.leader(stream) for stream in STREAMS} == ids


@pytest.mark.parametrize("zone", [None, "d", ""])
def test_no_zone_and_an_unknown_one_are_shown_all(zone: str | None) -> None:
    view = Zones(SIX).view(zone)
    assert [b.broker_id for b in view.brokers] == [0, 1, 2, 3, 4, 5]
    assert {view.leader(stream) for stream in STREAMS} == set(range(6))


def test_brokers_without_a_zone_are_shown_to_clients_of_none() -> None:
    zones = Zones([broker(1), broker(2, "a")])
    assert [b.broker_id for b in zones.view("a").brokers] == [2]
    assert [b.broker_id for b in zones.view(None).brokers] == [1, 2]


@pytest.mark.parametrize("dead", range(6))
def test_only_the_streams_of_a_dead_broker_move(dead: int) -> None:
    before, after = Zones(SIX), Zones([b for b in SIX if b.broker_id != dead])
    for zone in (None, "a", "b", "c"):
        for stream in STREAMS:
            was, now = before.view(zone).leader(stream), after.view(zone).leader(stream)
            assert was in (now, dead)


def test_a_zone_without_brokers_falls_back_and_comes_back() -> None:
    without = Zones([b for b in SIX if b.zone_id != "a"])
    assert [b.broker_id for b in without.view("a").brokers] == [1, 2, 4, 5]
    assert [b.broker_id for b in Zones(SIX).view("a").brokers] == [0, 3]


# Racks


def test_without_racks_the_leader_is_the_one_replica() -> None:
    view = View(SIX)
    for stream in STREAMS:
        assert view.replicas(stream) == [view.leader(stream)]
        assert view.nearest(stream, "a") is None


def test_each_rack_has_a_replica_that_leads_for_its_zone() -> None:
    brokers = [broker(number, "abc"[number % 3], "abc"[number % 3]) for number in range(6)]
    zones = Zones(brokers)
    everywhere = zones.view(None)
    for stream in STREAMS:
        replicas = everywhere.replicas(stream)
        assert replicas[0] == everywhere.leader(stream)
        assert sorted("abc"[number % 3] for number in replicas) == ["a", "b", "c"]
        for zone in "abc":
            local = zones.view(zone).leader(stream)
            assert local in replicas
            assert everywhere.nearest(stream, zone) == local
            assert zones.view(zone).replicas(stream) == [local]
        assert zones.view("a").nearest(stream, "b") is None


def test_replicas_are_bounded() -> None:
    brokers = [broker(number, None, f"rack-{number}") for number in range(REPLICAS_SHOWN_MAX + 9)]
    view = View(brokers)
    for stream in STREAMS:
        replicas = view.replicas(stream)
        assert len(set(replicas)) == len(replicas)
        assert len(replicas) <= REPLICAS_SHOWN_MAX + 1


def test_a_broker_by_its_id() -> None:
    view = Zones(SIX).view("b")
    assert view.get(4) is SIX[4]
    assert view.get(3) is None
