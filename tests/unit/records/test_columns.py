"""Columns out of Python values are those that Arrow makes itself; pandas is not loaded for them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from towpath.records import table
from towpath.records.columns import column_of

HEADERS = table.arrow_schema().field(table.HEADERS).type
LOADS = """
import sys
import pyarrow
from towpath.records import few_to_arrow, table
few_to_arrow.decode_few([], 0, table.arrow_schema())
assert "pandas" not in sys.modules
pyarrow.array([1])
print("pandas" in sys.modules)
"""


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], pa.int32()),
        ([1, -1, 2**31 - 1], pa.int32()),
        ([None, 2**63 - 1, None], pa.int64()),
        ([0, 253_402_300_799_999_000], table.TIMESTAMP_TYPE),
        ([], pa.binary()),
        ([b"", None, b"\xff\x00" * 300, b"x"], pa.binary()),
        ([None] * 9, pa.binary()),
        (["ä", "", None], pa.string()),
    ],
)
def test_columns_are_those_of_arrow(values: list[Any], kind: pa.DataType) -> None:
    found = column_of(values, kind)
    found.validate(full=True)
    assert found.equals(pa.array(values, kind))


@pytest.mark.parametrize(
    "values", [[], [()], [(("a", b"1"), ("a", None)), (), (("", b""),)], [(), (), (("é", None),)]]
)
def test_headers_are_those_of_arrow(values: list[tuple[tuple[str, bytes | None], ...]]) -> None:
    found = column_of(values, HEADERS)
    found.validate(full=True)
    pairs = [[{"key": key, "value": value} for key, value in some] for some in values]
    assert found.equals(pa.array(pairs, HEADERS))


def test_pandas_is_not_loaded() -> None:
    """The last line shows that Arrow's own way does load it: otherwise this proves nothing."""
    done = subprocess.run([sys.executable, "-c", LOADS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
