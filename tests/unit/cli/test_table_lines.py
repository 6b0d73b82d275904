"""The lines that `towpath tables describe` offers; integration tests run them."""

from __future__ import annotations

import shlex
from dataclasses import replace

from towpath.cli.table_catalog import CatalogPlace, place_of
from towpath.cli.table_lines import read_lines
from towpath.config.secrets import HIDDEN
from towpath.config.settings import Settings

S3_OPTIONS = {"endpoint": "http://127.0.0.1:9000", "region": "here", "access_key_id": "geheim"}
PLACE = CatalogPlace("lake", ("a", "b"), {"type": "rest", "uri": "https://example.org"})


def test_lines_for_a_rest_catalog_hide_secrets() -> None:
    secrets = {
        "credential": "id:geheim",
        "oauth2-server-uri": "https://example.org/tokens",
        "s3.secret-access-key": "geheim",
        "s3.endpoint": "http://user:geheim@localhost:9000",
    }
    place = replace(PLACE, properties={**PLACE.properties, **secrets})
    lines = read_lines(place, "orders", "s3://bucket/towpath/iceberg")
    assert lines.spark_sql is not None
    for text in (lines.pyiceberg, lines.duckdb, lines.spark_sql):
        assert "geheim" not in text
        assert HIDDEN in text
    assert "'s3.endpoint': 'http://***@localhost:9000'" in lines.pyiceberg
    words = shlex.split(lines.spark_sql)
    assert "spark.sql.catalog.lake.uri=https://example.org" in words
    assert "spark.sql.catalog.lake.oauth2-server-uri=https://example.org/tokens" in words
    assert words[-1] == "SELECT * FROM `lake`.`a`.`b`.`orders` LIMIT 5"


def test_lines_for_a_catalog_that_spark_may_not_know() -> None:
    place = replace(PLACE, properties={"type": "glue"})
    assert read_lines(place, "orders", "s3://bucket").spark_sql is None


def test_lines_for_files_on_a_service() -> None:
    settings = Settings.model_validate(
        {"data_dir": "/data", "objects_url": "s3://b", "objects_options": S3_OPTIONS}
    )
    lines = read_lines(place_of(settings), "orders", "s3://b/towpath/iceberg")
    assert "read_parquet" not in lines.duckdb
    compile(lines.duckdb, "lines", "exec")
    assert lines.spark_sql is not None
    words = shlex.split(lines.spark_sql.replace("\\\n", ""))
    assert "org.apache.iceberg:iceberg-aws-bundle:1.12.0" in words[2]
    catalog = "spark.sql.catalog.towpath"
    assert f"{catalog}.io-impl=org.apache.iceberg.aws.s3.S3FileIO" in words
    assert f"{catalog}.client.region=here" in words
    assert f"{catalog}.s3.access-key-id={HIDDEN}" in words


def test_lines_survive_odd_paths() -> None:
    uri = 'sqlite:////tmp/it\'s a "dir"/catalog.sqlite'
    place = replace(PLACE, properties={"type": "sql", "uri": uri})
    lines = read_lines(place, "shop.orders-eu", "file:///tmp/x")
    for text in (lines.pyiceberg, lines.duckdb):
        compile(text, "lines", "exec")
        assert repr(uri) in text
        assert "load_table(('a', 'b', 'shop.orders-eu'))" in text
    words = shlex.split((lines.spark_sql or "").replace("\\\n", ""))
    assert 'spark.sql.catalog.lake.uri=jdbc:sqlite:/tmp/it\'s a "dir"/catalog.sqlite' in words
