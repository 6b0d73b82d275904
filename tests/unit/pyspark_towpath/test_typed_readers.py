"""The Spark source without Spark: typed columns of files of every age and of the tail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.query.helpers_typed import TypedLake

from pyspark_towpath import DefaultSource
from pyspark_towpath.names import BadOption
from towpath.config.settings import Settings

SCHEMA = {
    "properties": {
        "id": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "clock": {"type": "string", "format": "time"},
    }
}


@pytest.fixture
def lake(tmp_path: Path) -> TypedLake:
    return TypedLake(Settings(data_dir=tmp_path / "data"))


def source(lake: TypedLake, **options: str) -> DefaultSource:
    return DefaultSource({"topic": "orders", "data-dir": str(lake.settings.data_dir), **options})


def rows(made: DefaultSource) -> list[tuple[Any, ...]]:
    reader: Any = made.reader(made.schema())
    return [
        tuple(row.values())
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def test_typed_columns_wherever_a_record_lies(lake: TypedLake) -> None:
    lake.append("orders", {"id": 1, "tags": ["a"]})
    lake.compact()
    lake.declare("orders", "json", SCHEMA)
    lake.append("orders", {"id": 2}, b"?")
    made = source(lake, columns="offset,id,tags,value_error")
    assert [(field.name, field.dataType.simpleString()) for field in made.schema()] == [
        ("offset", "bigint"),
        ("id", "bigint"),
        ("tags", "array<string>"),
        ("value_error", "string"),
    ]
    error = "not JSON: Expecting value at character 0"
    wanted = [(0, 1, ["a"], None), (1, 2, None, None), (2, None, None, error)]
    assert rows(made) == wanted
    lake.compact()
    assert rows(made) == wanted
    assert source(lake).schema().names[-4:] == ["id", "tags", "clock", "value_error"]


def test_a_column_that_is_not_declared_any_more(lake: TypedLake) -> None:
    lake.append("orders", {"id": 1})
    lake.declare("orders", "json", SCHEMA)
    made = source(lake, columns="id,clock")
    schema = made.schema()
    lake.declare("orders", "json", json.dumps({"properties": {"id": {"type": "integer"}}}))
    with pytest.raises(BadOption, match="the column 'clock' of 'orders' is not declared any more"):
        made.reader(schema)
    with pytest.raises(BadOption, match="there is no column 'clock'"):
        made.schema()
