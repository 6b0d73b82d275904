"""Arrow columns out of Python values, built of buffers.

`pyarrow.array` would do the same, but it loads pandas first, which takes longer than everything
else that a query over a few records does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def column_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A column of numbers, times (as the numbers they are stored as), bytes, text, or lists of
    structs, each a tuple."""
    if pa.types.is_list(kind):
        return _lists(values, kind)
    if pa.types.is_binary(kind):
        return _bytes(values, kind)
    if pa.types.is_string(kind):
        return _bytes([None if text is None else text.encode() for text in values], kind)
    numbers = np.array([0 if number is None else number for number in values], f"i{_width(kind)}")
    return pa.Array.from_buffers(kind, len(values), [_validity(values), pa.py_buffer(numbers)])


def _width(kind: pa.DataType) -> int:
    width_bits: int = kind.bit_width
    return width_bits // 8


def _bytes(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    ends = _ends([0 if value is None else len(value) for value in values])
    data = b"".join(value for value in values if value is not None)
    buffers = [_validity(values), ends, pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(values), buffers)


def _lists(values: Sequence[Sequence[tuple[Any, ...]]], kind: pa.DataType) -> pa.Array:
    items = [item for some in values for item in some]
    struct = kind.value_type
    fields = [
        column_of([item[at] for item in items], struct.field(at).type)
        for at in range(struct.num_fields)
    ]
    structs = pa.Array.from_buffers(struct, len(items), [None], children=fields)
    buffers = [None, _ends([len(some) for some in values])]
    return pa.Array.from_buffers(kind, len(values), buffers, children=[structs])


def _ends(lengths: Sequence[int]) -> pa.Buffer:
    """Where each value begins, and where the last one ends."""
    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(np.array(lengths, np.int32), out=ends[1:])
    return pa.py_buffer(ends)


def _validity(values: Sequence[Any]) -> pa.Buffer | None:
    present = np.array([value is not None for value in values], np.bool_)
    if present.all():
        return None
    return pa.py_buffer(np.packbits(present, bitorder="little"))
