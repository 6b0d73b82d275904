"""Copies bytes between arrays inside a kernel, at the speed of memcpy.

A bounds-checked loop over bytes is ten times slower, and numba's own assignment of slices looks for
overlaps first. The bounds are checked here, once per copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from towpath.records.kernels.jit import kernel

# isort: split
# numba reads the place of its cache when it is imported, so `jit`, which sets it, comes first.
from numba.core import cgutils, types
from numba.extending import intrinsic

Bytes = NDArray[np.uint8]


def _emit_memcpy(
    _context: Any, target: Any, target_at: Any, source: Any, source_at: Any, length: Any
) -> Any:
    """Becomes LLVM's memcpy between the arrays' data; the caller has checked the bounds."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        def address(array_type: Any, array: Any, at: Any) -> Any:
            data = context.make_array(array_type)(context, builder, array).data
            return builder.gep(data, [at])

        to = address(target, values[0], values[1])
        of = address(source, values[2], values[3])
        cgutils.raw_memcpy(builder, to, of, values[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(target, target_at, source, source_at, length), generate


_memcpy: Any = intrinsic(_emit_memcpy)


@kernel
def copy(target: Bytes, target_at: int, source: Bytes, source_at: int, length: int) -> bool:
    """Copy `length` bytes; False, with nothing copied, unless they lie within both arrays."""
    if length < 0 or target_at < 0 or source_at < 0:
        return False
    if length > len(target) - target_at or length > len(source) - source_at:
        return False
    _memcpy(target, target_at, source, source_at, length)
    return True
