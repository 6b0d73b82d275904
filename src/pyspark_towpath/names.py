"""Options by name: `data-dir`, `dataDir` and `data_dir` are the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from towpath.errors import TowpathError


class BadOption(TowpathError):
    """An option is missing, unknown or wrong; says which and why."""


def plain(name: str) -> str:
    """What a name is told apart by."""
    return name.lower().replace("-", "").replace("_", "").replace(".", "")


def by_name(
    options: Mapping[str, str], known: Collection[str], ignored: Collection[str] = ()
) -> dict[str, str]:
    """The options by their known names. Raises BadOption for one that is not known, because what
    is misspelt would be left out in silence."""
    names = {plain(name): name for name in known}
    passed_over = {plain(name) for name in ignored}
    found: dict[str, str] = {}
    for given, value in options.items():
        name = names.get(plain(given))
        if name is not None:
            found[name] = value
        elif plain(given) not in passed_over:
            raise BadOption(f"there is no option {given!r}; there are {', '.join(sorted(known))}")
    return found


def whole_number(name: str, value: str, least: int) -> int:
    """The number that an option gives."""
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if number < least:
        raise BadOption(f"option {name!r} wants a whole number from {least} on, not {value!r}")
    return number


def flag(name: str, value: str) -> bool:
    """Whether an option says true."""
    if value.lower() not in ("true", "false"):
        raise BadOption(f"option {name!r} wants true or false, not {value!r}")
    return value.lower() == "true"
