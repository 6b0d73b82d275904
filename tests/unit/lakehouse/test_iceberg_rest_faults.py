"""A REST catalog that fails in every way: what we conclude is true, or careful."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.lakehouse.helpers_iceberg import (
    TOPIC,
    Lake,
    append,
    offsets_by_duckdb,
    offsets_by_pyiceberg,
    operations,
)
from tests.unit.lakehouse.helpers_rest_server import (
    CLIENT,
    SECRET,
    Fault,
    RestServer,
    rest_server,
)

from towpath.lakehouse.iceberg.catalog import CatalogSettings
from towpath.lakehouse.iceberg.maintenance import HOUR_MS, UpkeepSettings
from towpath.lakehouse.iceberg.rest_catalog import READ_TIMEOUT
from towpath.lakehouse.iceberg.tables import IcebergTables
from towpath.lakehouse.tables import (
    CatalogUnavailable,
    Change,
    CommitConflict,
    CommitUnknown,
    Mark,
    Table,
    TableMissing,
)

TABLE = f"/tables/{TOPIC.name}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path / "server") as running:
        yield running


@pytest.fixture
def lake(tmp_path: Path, server: RestServer) -> Lake:
    lake = Lake.at(tmp_path)
    lake.catalog = CatalogSettings("rest", {"uri": server.uri})
    return lake


async def loaded(lake: Lake) -> Table:
    table = await lake.tables().load(TOPIC)
    assert table is not None
    return table


async def test_tables_live_in_a_rest_catalog(lake: Lake) -> None:
    tables = lake.tables()
    assert await tables.load(TOPIC) is None
    table = await tables.create(TOPIC)
    first = lake.write(table.field_ids, 0, range(5))
    table = await tables.commit(table, append(table, (0, first)))
    large = lake.write(table.field_ids, 0, range(5))
    table = await tables.commit(
        table, Change({0: Mark(5, "task-1", "r")}, [(0, large)], [(0, first)], changes_rows=False)
    )
    assert offsets_by_pyiceberg(table) == offsets_by_duckdb(table) == [(0, at) for at in range(5)]
    assert operations(table) == ["append", "replace"]
    assert await loaded(lake) == table
    assert await tables.drop(TOPIC) == sorted([first.path, large.path])
    assert await tables.load(TOPIC) is None


async def test_a_late_commit_conflicts_and_is_sent_once(lake: Lake, server: RestServer) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    await lake.tables().commit(table, Change({0: Mark(1, "quick")}))
    files = lake.metadata_files()
    before = server.count("POST", TABLE)
    with pytest.raises(CommitConflict):
        await tables.commit(table, Change({0: Mark(1, "late")}))
    assert server.count("POST", TABLE) == before + 1
    assert lake.metadata_files() == files
    assert (await loaded(lake)).mark(0).task_id == "quick"


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 0])
@pytest.mark.parametrize("applied", [True, False])
async def test_an_unclear_answer_is_unknown(
    lake: Lake, server: RestServer, status: int, applied: bool
) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    file = lake.write(table.field_ids, 0, range(5))
    server.faults = [Fault("POST", TABLE, status, applied)]
    before = server.count("POST", TABLE)
    with pytest.raises(CommitUnknown):
        await tables.commit(table, append(table, (0, file), task="mine"))
    assert server.count("POST", TABLE) == before + 1
    seen = await loaded(lake)
    assert (seen.mark(0).task_id == "mine") == applied
    if not applied:
        seen = await tables.commit(seen, append(seen, (0, file), task="mine"))
    assert offsets_by_pyiceberg(seen) == [(0, offset) for offset in range(5)]


@pytest.mark.parametrize("status", [400, 403, 422, 429, 501])
async def test_a_refusal_changed_nothing(lake: Lake, server: RestServer, status: int) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    files = lake.metadata_files()
    server.faults = [Fault("POST", TABLE, status)]
    with pytest.raises(CatalogUnavailable):
        await tables.commit(table, Change({0: Mark(1, "t")}))
    assert lake.metadata_files() == files
    assert (await tables.commit(table, Change({0: Mark(1, "t")}))).mark(0).end == 1


@pytest.mark.parametrize("status", [500, 503, 403, 401, 0])
async def test_a_failed_load_is_unavailable(lake: Lake, server: RestServer, status: int) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    server.faults = [Fault("GET", TABLE, status, times=2)]
    with pytest.raises(CatalogUnavailable):
        await tables.load(TOPIC)
    server.faults = []
    assert await tables.load(TOPIC) == table


async def test_a_server_that_hangs_is_given_up(lake: Lake, server: RestServer) -> None:
    lake.catalog = replace(lake.catalog, properties={"uri": server.uri, READ_TIMEOUT: "0.2"})
    tables = lake.tables()
    table = await tables.create(TOPIC)
    server.faults = [Fault("POST", TABLE, hang=True, applied=True)]
    with pytest.raises(CommitUnknown, match="does not answer"):
        await tables.commit(table, Change({0: Mark(1, "mine")}))
    assert (await loaded(lake)).mark(0).task_id == "mine"
    server.faults = [Fault("GET", TABLE, hang=True)]
    with pytest.raises(CatalogUnavailable, match="does not answer"):
        await tables.load(TOPIC)


async def test_a_catalog_that_is_not_there_yet(lake: Lake, server: RestServer) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
    lake.catalog = CatalogSettings("rest", {"uri": nowhere})
    tables = lake.tables()
    for _ in range(2):
        with pytest.raises(CatalogUnavailable, match="does not answer"):
            await tables.load(TOPIC)
    with pytest.raises(CatalogUnavailable):
        await tables.create(TOPIC)


async def test_a_catalog_that_went_away_got_no_commit(lake: Lake, tmp_path: Path) -> None:
    with rest_server(tmp_path / "other") as other:
        lake.catalog = CatalogSettings("rest", {"uri": other.uri})
        tables = lake.tables()
        table = await tables.create(TOPIC)
    files = lake.metadata_files()
    with pytest.raises(CatalogUnavailable, match="does not answer"):
        await tables.commit(table, Change({0: Mark(1, "t")}))
    assert lake.metadata_files() == files


async def test_a_table_dropped_meanwhile_is_missing(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    await lake.tables().drop(TOPIC)
    with pytest.raises(TableMissing):
        await tables.commit(table, Change({0: Mark(1, "t")}))


async def test_a_lost_answer_to_creation_is_harmless(lake: Lake, server: RestServer) -> None:
    tables = lake.tables()
    await tables.load(TOPIC)
    server.faults = [Fault("POST", "/tables", 500, applied=True)]
    with pytest.raises(CatalogUnavailable):
        await tables.create(TOPIC)
    assert await tables.create(TOPIC) == await loaded(lake)


async def test_expiry_and_renaming_work_over_rest(lake: Lake) -> None:
    tables = lake.tables(UpkeepSettings(snapshots_min=1))
    table = await tables.create(TOPIC)
    for number in range(12):
        table = await tables.commit(table, Change({0: Mark(number, f"task-{number}")}))
    lake.clock.time_ms += HOUR_MS
    maintained = await tables.maintain(table)
    assert maintained.expired_snapshots == 11
    assert len(lake.metadata_files()) <= 14
    again = replace(TOPIC, number=8)
    assert await tables.set_aside(again) == f"{TOPIC.name}__7"
    assert (await tables.create(again)).marks == {}


# Expiry does not move the branch, so the server lets a commit planned before it pass.
async def test_a_commit_after_anothers_expiry_passes(lake: Lake) -> None:
    tables = lake.tables(UpkeepSettings(snapshots_min=1))
    table = await tables.create(TOPIC)
    for number in range(12):
        table = await tables.commit(table, Change({0: Mark(number, f"task-{number}")}))
    lake.clock.time_ms += HOUR_MS
    maintained = await lake.tables(UpkeepSettings(snapshots_min=1)).maintain(table)
    assert maintained.expired_snapshots == 11
    file = lake.write(table.field_ids, 0, range(20, 25))
    try:
        table = await tables.commit(table, append(table, (0, file), task="mine"))
    except CommitUnknown:
        table = await loaded(lake)
        table = await tables.commit(table, append(table, (0, file), task="mine"))
    assert offsets_by_pyiceberg(table) == [(0, offset) for offset in range(20, 25)]


def secured(lake: Lake, server: RestServer, **properties: str) -> IcebergTables:
    server.needs_token = True
    given = {name.replace("_", "-"): value for name, value in properties.items()}
    lake.catalog = CatalogSettings("rest", {"uri": server.uri, **given})
    return lake.tables()


async def test_oauth2_client_credentials(lake: Lake, server: RestServer) -> None:
    tables = secured(
        lake,
        server,
        credential=f"{CLIENT}:{SECRET}",
        oauth2_server_uri=f"{server.uri}/v1/oauth/tokens",
        scope="PRINCIPAL_ROLE:ALL",
    )
    table = await tables.create(TOPIC)
    asked = server.token_requests[0]
    assert (asked["grant_type"], asked["scope"]) == ("client_credentials", "PRINCIPAL_ROLE:ALL")
    server.tokens.append("the old one has expired")
    table = await tables.commit(table, Change({0: Mark(1, "t")}))
    assert table.mark(0).end == 1
    assert await tables.load(TOPIC) == table


async def test_oauth2_with_a_token_that_renews_itself(lake: Lake, server: RestServer) -> None:
    server.needs_token = True
    lake.catalog = CatalogSettings(
        "rest",
        {
            "uri": server.uri,
            "auth.type": "oauth2",
            "auth.oauth2.client_id": CLIENT,
            "auth.oauth2.client_secret": SECRET,
            "auth.oauth2.token_url": f"{server.uri}/v1/oauth/tokens",
            "auth.oauth2.refresh_margin": "60",
        },
    )
    tables = lake.tables()
    table = await tables.create(TOPIC)
    assert (await tables.commit(table, Change({0: Mark(1, "t")}))).mark(0).end == 1


@pytest.mark.parametrize(
    "properties",
    [
        {"credential": f"{CLIENT}:wrong", "oauth2_server_uri": "{uri}/v1/oauth/tokens"},
        {"token": "made-up"},
        {},
    ],
)
async def test_wrong_credentials_say_so(
    lake: Lake, server: RestServer, properties: dict[str, str]
) -> None:
    given = {name: value.format(uri=server.uri) for name, value in properties.items()}
    tables = secured(lake, server, **given)
    with pytest.raises(CatalogUnavailable, match="credentials"):
        await tables.load(TOPIC)


async def test_a_server_without_tls_says_so(lake: Lake, server: RestServer) -> None:
    lake.catalog = CatalogSettings("rest", {"uri": server.uri.replace("http:", "https:")})
    with pytest.raises(CatalogUnavailable, match="secure connection"):
        await lake.tables().load(TOPIC)
