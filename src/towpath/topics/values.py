"""The kinds of value a setting may have: parsing as Kafka parses, errors in Kafka's words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from towpath.errors import InvalidConfig


class ConfigType(IntEnum):
    """A setting's type, numbered as in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


Value = bool | int | float | str | tuple[str, ...]

_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_BITS = {ConfigType.INT: 32, ConfigType.LONG: 64}


def invalid(name: str, value: object, reason: str) -> InvalidConfig:
    """The error that Kafka gives for a bad value."""
    return InvalidConfig(f"Invalid value {value} for configuration {name}: {reason}")


def parse(name: str, text: str, kind: ConfigType) -> Value:
    """The typed value of `text`; raises InvalidConfig. Surrounding blanks are ignored."""
    trimmed = text.strip()
    match kind:
        case ConfigType.BOOLEAN:
            return _boolean(name, text, trimmed)
        case ConfigType.INT | ConfigType.LONG:
            return _integer(name, text, trimmed, kind)
        case ConfigType.DOUBLE:
            return _double(name, text, trimmed)
        case ConfigType.STRING:
            return trimmed
        case ConfigType.LIST:
            return tuple(re.split(r"\s*,\s*", trimmed)) if trimmed else ()


def _boolean(name: str, text: str, trimmed: str) -> bool:
    lowered = trimmed.lower()
    if lowered not in ("true", "false"):
        raise invalid(name, text, "Expected value to be either true or false")
    return lowered == "true"


def _integer(name: str, text: str, trimmed: str, kind: ConfigType) -> int:
    limit = 1 << (_BITS[kind] - 1)
    # The length check keeps a hostile string of digits from being converted at all.
    if len(trimmed) > 32 or _INTEGER.match(trimmed) is None or not -limit <= int(trimmed) < limit:
        raise invalid(name, text, f"Not a number of type {kind.name}")
    return int(trimmed)


def _double(name: str, text: str, trimmed: str) -> float:
    if len(trimmed) > 64 or _DECIMAL.match(trimmed) is None:
        raise invalid(name, text, f"Not a number of type {ConfigType.DOUBLE.name}")
    value = float(trimmed)
    if not math.isfinite(value):
        raise invalid(name, text, f"Not a number of type {ConfigType.DOUBLE.name}")
    return value


def to_text(value: Value) -> str:
    """The canonical text of a value: what is stored and shown."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


Check = Callable[[str, Value], None]
"""Raises InvalidConfig unless the parsed value of the named setting is acceptable."""


@dataclass(frozen=True, slots=True)
class Between:
    """A number in `[least, most]`; an end that is None is open."""

    least: float | None
    most: float | None = None

    def __call__(self, name: str, value: Value) -> None:
        assert isinstance(value, int | float)
        if self.least is not None and value < self.least:
            raise invalid(name, value, f"Value must be at least {self.least}")
        if self.most is not None and value > self.most:
            raise invalid(name, value, f"Value must be no more than {self.most}")


@dataclass(frozen=True, slots=True)
class OneOf:
    """A string, or each string of a list, out of a fixed set."""

    allowed: tuple[str, ...]

    def __call__(self, name: str, value: Value) -> None:
        for item in value if isinstance(value, tuple) else (value,):
            if item not in self.allowed:
                raise invalid(name, item, f"String must be one of: {', '.join(self.allowed)}")


@dataclass(frozen=True, slots=True)
class NotLonger:
    """A string of at most so many characters."""

    most: int

    def __call__(self, name: str, value: Value) -> None:
        assert isinstance(value, str)
        if len(value) > self.most:
            reason = f"String has {len(value)} characters, at most {self.most} are allowed"
            raise invalid(name, value[:40] + "...", reason)


@dataclass(frozen=True, slots=True)
class LevelOr:
    """A compression level in a range, or one value that stands for the codec's default."""

    default: int
    least: int
    most: int

    def __call__(self, name: str, value: Value) -> None:
        if value != self.default:
            Between(self.least, self.most)(name, value)


def throttled_replicas(name: str, value: Value) -> None:
    """Kafka's list of throttled replicas: `*`, or `partition:broker` pairs."""
    assert isinstance(value, tuple)
    if value == ("*",):
        return
    if any(re.match(r"[0-9]+:[0-9]+\Z", item) is None for item in value):
        raise invalid(
            name,
            to_text(value),
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )


def must_be_false(name: str, value: Value) -> None:
    """Refuse to switch on what this broker does not have."""
    if value is not False:
        raise invalid(
            name,
            to_text(value),
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )
