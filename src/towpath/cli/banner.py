"""What `towpath up` shows when it is ready: addresses, and lines to copy for the first record."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.cli.command_name import command_name

if TYPE_CHECKING:
    from towpath.config import Settings

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_DATA_DIR = Path("towpath-data")
FIRST_QUERY = 'SELECT "offset", decode(value) AS value FROM greetings'

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Ready:
    """What listens where."""

    kafka: tuple[Address, ...]
    http: Address
    data_dir: Path
    finding: tuple[str, ...] | None = None
    """Flags by which commands that read the stores find them; None if no other process can."""
    tables: bool = False
    """Whether topics become tables."""


def ready(
    settings: Settings,
    config: Path | None,
    kafka: tuple[Address, ...],
    http: Address,
    *,
    tables: bool,
) -> Ready:
    """What listens where, by these settings, which may be those of a file."""
    return Ready(kafka, http, settings.data_dir, _finding_flags(settings, config), tables)


def _finding_flags(settings: Settings, config: Path | None) -> tuple[str, ...] | None:
    if settings.metadata_path() is None or settings.objects_url.startswith("memory:"):
        return None
    flags = [] if config is None else ["--config", str(config.absolute())]
    by_flag = settings.origin("data_dir").startswith("flag")
    if by_flag or (config is None and settings.data_dir != DEFAULT_DATA_DIR.absolute()):
        flags += ["--data-dir", str(settings.data_dir)]
    for name in ("metadata_url", "objects_url"):
        if settings.origin(name).startswith("flag"):
            flags += ["--set", f"{name}={getattr(settings, name)}"]
    return tuple(flags)


def show(ready: Ready) -> None:
    """Print the banner to stdout, in colour on a terminal."""
    lines = banner_lines(ready, command_name())
    if sys.stdout.isatty():
        _show_rich(lines)
    else:
        for label, text in lines:
            print(f"{label:<10}{text}".rstrip())
    sys.stdout.flush()


def banner_lines(ready: Ready, command: str) -> list[tuple[str, str]]:
    """Label and text of each line; an empty label continues the one above."""
    bootstrap = ",".join(_join(address) for address in ready.kafka)
    # `localhost` names are avoided: they may resolve to ::1, where nothing listens.
    first = _join(ready.kafka[0])
    flag = "" if first == DEFAULT_BOOTSTRAP else f" --bootstrap {first}"
    http = _join(ready.http)
    return [
        ("towpath", "is ready, stop it with Ctrl-C"),
        ("", ""),
        ("kafka", bootstrap),
        ("http", f"http://{http}/metrics  /healthz  /readyz"),
        ("data", str(ready.data_dir)),
        ("", ""),
        ("write", f"echo 'hello' | {_quote(command)} produce greetings{flag}"),
        ("read", f"{_quote(command)} consume greetings --from earliest --count 1{flag}"),
        *_store_lines(ready, command),
        ("kcat", f"echo 'hello' | kcat -P -b {first} -t greetings"),
        ("", f"kcat -C -b {first} -t greetings -o beginning -c 1"),
        ("", ""),
    ]


def _store_lines(ready: Ready, command: str) -> list[tuple[str, str]]:
    """Lines for commands that read the stores without a broker."""
    if ready.finding is None:
        return []
    flags = "".join(f" {shlex.quote(flag)}" for flag in ready.finding)
    lines = [("query", f"{_quote(command)} sql {shlex.quote(FIRST_QUERY)}{flags}")]
    if ready.tables:
        lines.append(("table", f"{_quote(command)} tables describe greetings{flags}"))
    return lines


def _join(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _quote(command: str) -> str:
    return command if command == "python -m towpath" else shlex.quote(command)


def _show_rich(lines: list[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for label, text in lines:
        line = Text(f"{label:<10}", style="bold cyan")
        line.append(text, style="default")
        console.print(line, soft_wrap=True)
