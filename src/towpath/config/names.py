"""How a setting may be spelled: dots, dashes and underscores are equal, other names are aliases."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_origin

from towpath.config.settings import Settings

SUGGESTION_CUTOFF = 0.6


@dataclass(frozen=True, slots=True)
class Spelling:
    """A way to write a setting: what it sets, how its value converts, and who wins.

    Where one place gives several spellings of a setting, the lowest `rank` wins, as Kafka's
    `log.retention.ms` wins over `.minutes` and `.hours`.
    """

    setting: str
    convert: Callable[[object], object] = lambda value: value
    rank: int = 0


def _times(factor: int) -> Callable[[object], object]:
    """Converts a whole number of larger units; -1 keeps its meaning, other values pass through."""

    def convert(value: object) -> object:
        text = str(value).strip()
        if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]+", text):
            return value
        number = int(text)
        return number if number < 0 else number * factor

    return convert


ALIASES: dict[str, Spelling] = {
    "wal_orphan_ttl": Spelling("wal_orphan_ttl_ms"),
    "wal_gc_grace": Spelling("wal_gc_grace_ms"),
    "compaction_interval": Spelling("compaction_interval_ms"),
    "compaction_target_file_bytes": Spelling("compaction_target_file_size_bytes"),
    "iceberg_partitioning": Spelling("table_iceberg_partitioning"),
    "linger": Spelling("linger_ms"),
    "wal_linger_ms": Spelling("linger_ms"),
    "wal_max_buffer_bytes": Spelling("max_buffer_bytes"),
    "broker_id": Spelling("node_id", rank=1),
    "broker_rack": Spelling("rack"),
    "zone_id": Spelling("zone"),
    "zones": Spelling("zone"),
    "broker_zone": Spelling("zone"),
    "broker_session_timeout_ms": Spelling("session_timeout_ms"),
    "log_dirs": Spelling("data_dir"),
    "log_dir": Spelling("data_dir", rank=1),
    "log_retention_minutes": Spelling("log_retention_ms", _times(60_000), rank=1),
    "log_retention_hours": Spelling("log_retention_ms", _times(3_600_000), rank=2),
    "offsets_retention_minutes": Spelling("offsets_retention_ms", _times(60_000), rank=1),
}
"""Kafka's and the seeds' names, normalised."""


def normalise(name: str) -> str:
    """Lower case, with `_` for every run of dots, dashes, underscores and spaces."""
    return re.sub(r"[.\-_ ]+", "_", name.strip().lower())


def spelling(name: str) -> Spelling | None:
    """What `name` sets, or None if there is no such setting."""
    plain = normalise(name)
    if plain in Settings.model_fields:
        return Spelling(plain)
    return ALIASES.get(plain)


def property_of(name: str) -> tuple[str, str] | None:
    """The two parts of `setting.name`, where the setting holds other software's settings and `name`
    is one of them as that software spells it; None for other names."""
    if spelling(name) is not None:
        return None
    parts = name.split(".")
    for count in range(1, len(parts)):
        known = spelling(".".join(parts[:count]))
        if known is not None and is_mapping(known.setting):
            return known.setting, ".".join(parts[count:])
    return None


def is_mapping(setting: str) -> bool:
    """Whether the setting holds other software's settings by name."""
    return get_origin(Settings.model_fields[setting].annotation) is dict


def suggestion(name: str) -> str:
    """`, did you mean ...?` when a known name is close, else nothing."""
    known = [*Settings.model_fields, *ALIASES]
    close = difflib.get_close_matches(normalise(name), known, n=1, cutoff=SUGGESTION_CUTOFF)
    if not close:
        return ""
    return f", did you mean '{close[0]}'?"
