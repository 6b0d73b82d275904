"""Every generated message in every version, against the library kio."""

from __future__ import annotations

import importlib
import io
import random
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer
from tests.unit.kafka.codec.helpers_messages import ALL_MESSAGES, from_kio, random_message

from towpath.kafka.codec import decode, encode
from towpath.kafka.codec.generate import SERVED, generate
from towpath.kafka.codec.schema import ApiMessage

MESSAGES_PER_VERSION = 12


def kio_class(api: str, cls: type[ApiMessage], version: int) -> Any:
    kind = "request" if cls.__name__.endswith("Request") else "response"
    return getattr(importlib.import_module(f"kio.schema.{api}.v{version}.{kind}"), cls.__name__)


@pytest.mark.parametrize(("api", "cls"), ALL_MESSAGES, ids=lambda p: getattr(p, "__name__", p))
def test_kio_reads_what_we_write_and_we_read_what_kio_writes(
    api: str, cls: type[ApiMessage]
) -> None:
    chance = random.Random(cls.__name__)
    for version in range(SERVED[api][0], SERVED[api][1] + 1):
        theirs = kio_class(api, cls, version)
        read, write = entity_reader(theirs), entity_writer(theirs)
        for _ in range(MESSAGES_PER_VERSION):
            message = random_message(chance, cls, version)
            ours = encode(message, version)
            entity, size = read(ours, 0)
            assert size == len(ours)
            assert from_kio(entity, cls, version) == message
            with io.BytesIO() as buffer:
                write(buffer, entity)
                assert buffer.getvalue() == ours
            assert decode(cls, version, ours) == message


def test_the_generated_files_are_what_the_generator_makes() -> None:
    for path, text in generate().items():
        assert path.read_text(encoding="utf-8") == text, f"{path} is out of date"
