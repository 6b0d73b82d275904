"""How columns are called: as the fields of the value, unless SQL could not tell them apart.

Most engines do not tell upper from lower case, and a dot is their way into a struct.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from towpath.records.column_names import RAW

ERROR: Final = "value_error"
"""Why a record's value does not fit; null if it does, or if there is no value."""
RESERVED: Final = frozenset((*RAW, ERROR))
PREFIX: Final = "value_"
"""A field that is called as one of the record's own columns: `timestamp` is `value_timestamp`."""

_UNFIT = re.compile(r"[.\x00-\x1f\x7f`]")


class Names:
    """The names of the columns of one table or struct: the first of a name gets it."""

    def __init__(self, taken: Iterable[str] = (), reserved: frozenset[str] = frozenset()) -> None:
        """`reserved` are names that no field gets, in lower case."""
        self._reserved = reserved
        self._folded = {name.casefold() for name in taken} | reserved

    def give(self, source: str) -> str:
        """The name for one more field."""
        name = _UNFIT.sub("_", source) or "_"
        if name.casefold() in self._reserved:
            name = PREFIX + name
        name = _free(name, self._folded)
        self._folded.add(name.casefold())
        return name


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name, or with the least number behind it that makes it another one than those taken."""
    return _free(name, {other.casefold() for other in taken})


def _free(name: str, folded: set[str]) -> str:
    number, found = 1, name
    while found.casefold() in folded:
        number += 1
        found = f"{name}_{number}"
    return found
