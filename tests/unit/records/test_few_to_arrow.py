"""Decoding in Python gives the same rows as the kernel."""

from __future__ import annotations

from random import Random

import pytest

from towpath.errors import CorruptBatch
from towpath.records import table
from towpath.records.build import NewRecord, ProducerFields, build_batch
from towpath.records.few_to_arrow import decode_few
from towpath.records.open_batch import OpenBatch, open_batch
from towpath.records.to_arrow import decode_batches

FIRST_MS = 1_700_000_000_000


def some_batches(seed: int) -> list[OpenBatch]:
    chance = Random(seed)
    found, offset = [], chance.randrange(1_000)
    for _ in range(chance.randrange(1, 5)):
        records = [
            NewRecord(
                value=None if chance.random() < 0.2 else chance.randbytes(chance.randrange(30)),
                key=None if chance.random() < 0.5 else chance.randbytes(3),
                timestamp_ms=FIRST_MS + chance.randrange(-10_000, 10_000),
                headers=tuple(
                    (chance.choice(("", "ä", "same")), chance.choice((None, b"", b"\xff")))
                    for _ in range(chance.randrange(3))
                ),
            )
            for _ in range(chance.randrange(1, 20))
        ]
        fields = chance.choice(((-1, -1, -1), (7, 2, 40)))
        data = build_batch(records, producer=ProducerFields(*fields))
        found.append(open_batch(data, offset))
        offset += len(records)
    return found


@pytest.mark.parametrize("seed", range(30))
def test_the_rows_are_those_of_the_kernel(seed: int) -> None:
    batches, schema = some_batches(seed), table.arrow_schema()
    assert decode_few(batches, 3, schema).equals(decode_batches(batches, 3, schema))


def test_no_batches_are_no_rows() -> None:
    assert decode_few([], 0, table.arrow_schema()).num_rows == 0


def test_damage_behind_a_right_checksum_is_told() -> None:
    (batch, *_) = some_batches(1)
    cut = batch._replace(payload=bytes(batch.payload)[:-1])
    with pytest.raises(CorruptBatch, match=f"offset {batch.base_offset}"):
        decode_few([cut], 0, table.arrow_schema())
