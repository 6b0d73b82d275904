"""The two settings that declare what values are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from towpath.errors import InvalidConfig
from towpath.topics.configs import VALUE_SCHEMA_CHARS_MAX, validate
from towpath.typed.declaration import FORMAT, SCHEMA, ValueFormat, declared

OBJECT = json.dumps({"type": "object", "properties": {"a": {"type": "string"}}})
RECORD = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, None),
        ({FORMAT: "none"}, None),
        ({FORMAT: "json"}, ValueFormat.JSON),
        ({FORMAT: "json", SCHEMA: "infer"}, ValueFormat.JSON),
        ({FORMAT: "json", SCHEMA: OBJECT}, ValueFormat.JSON),
        ({FORMAT: "avro", SCHEMA: RECORD}, ValueFormat.AVRO),
        ({FORMAT: "avro-registry", SCHEMA: f'{{"1": {RECORD}}}'}, ValueFormat.AVRO_REGISTRY),
    ],
)
def test_declarations(settings: dict[str, str], wanted: ValueFormat | None) -> None:
    found = declared(validate(settings))
    assert (None if found is None else found.format) is wanted


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({FORMAT: "xml"}, "String must be one of: none, json, avro, avro-registry"),
        ({SCHEMA: OBJECT}, "means nothing without towpath.value.format"),
        ({FORMAT: "none", SCHEMA: OBJECT}, "means nothing without towpath.value.format"),
        ({FORMAT: "avro"}, "needs a schema"),
        ({FORMAT: "avro", SCHEMA: "infer"}, "the schema is not JSON"),
        ({FORMAT: "avro", SCHEMA: OBJECT}, "must be a record"),
        ({FORMAT: "avro-registry", SCHEMA: RECORD}, "'type' is no id of a schema"),
        ({FORMAT: "json", SCHEMA: RECORD}, "type 'record' is not one of"),
        ({FORMAT: "json", SCHEMA: "x" * (VALUE_SCHEMA_CHARS_MAX + 1)}, "at most"),
    ],
)
def test_what_is_wrong_is_refused(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason) as failure:
        validate(settings)
    assert "\n" not in str(failure.value)
    assert len(str(failure.value)) < 400


def bomb() -> dict[str, Any]:
    """A record of 2 ** 20 fields in a few lines."""
    found: dict[str, Any] = {
        "type": "record",
        "name": "R0",
        "fields": [{"name": "x", "type": "int"}],
    }
    for number in range(1, 21):
        twice = [{"name": "a", "type": found}, {"name": "b", "type": found["name"]}]
        found = {"type": "record", "name": f"R{number}", "fields": twice}
    return found


@pytest.mark.parametrize(
    ("format_name", "schema", "reason"),
    [
        ("avro", json.dumps(bomb()), "more than 5000 columns"),
        ("avro", '{"type":"record","name":"R","fields":[{"name":"a","type":' + "[" * 900 + "]" * 900
         + "}]}", "deeper than"),
        ("avro", "[" * 100_000, "not JSON"),
        ("json", '{"properties":{"a":' * 200 + "{}" + "}}" * 200, "deeper than"),
        ("json", json.dumps({"properties": {f"f{n}": {} for n in range(6_000)}}), "more than 5000"),
    ],
)  # fmt: skip
def test_schemas_that_would_be_too_much_are_refused(
    format_name: str, schema: str, reason: str
) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        validate({FORMAT: format_name, SCHEMA: schema})


def test_a_stamp_tells_declarations_apart() -> None:
    texts = [
        {FORMAT: "json"},
        {FORMAT: "json", SCHEMA: OBJECT},
        {FORMAT: "avro", SCHEMA: RECORD},
        {FORMAT: "avro-registry", SCHEMA: f'{{"1": {RECORD}}}'},
    ]
    found = [declared(settings) for settings in texts]
    assert len({one.stamp for one in found if one is not None}) == len(texts)
    assert declared(texts[0]) == declared({FORMAT: "json", SCHEMA: " infer "})


def test_a_declaration_of_another_release_counts_as_none() -> None:
    assert declared({FORMAT: "protobuf", SCHEMA: "x"}) is None
    assert declared({FORMAT: "json", SCHEMA: '{"oneOf": []}'}) is None
