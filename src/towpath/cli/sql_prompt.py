"""The prompt of `towpath sql`: statements end with a semicolon; there is a history."""

from __future__ import annotations

import contextlib
import os
import readline
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.cli.errors import complain

if TYPE_CHECKING:
    from towpath.query.engine import TopicQueries

HISTORY_LINES_MAX = 2_000
FIRST, NEXT = "towpath> ", "    ...> "
HELP = """\
Topics are tables: SELECT * FROM orders LIMIT 10;
Columns: partition, "offset", timestamp, key, value, headers, producer_id, producer_epoch,
base_sequence, attributes. Keys and values are bytes: decode(value) makes them text.
.topics lists the topics, .exit (or Ctrl-D) leaves, Ctrl-C forgets what was typed."""


def prompt(queries: TopicQueries, carry_out: Callable[[str], int]) -> int:
    """Read and carry out statements until the end; `carry_out` prints an answer and counts it."""
    from towpath.query.statement import QueryFailed

    history = _history()
    print("Type .help for help.")
    waiting = ""
    while True:
        try:
            line = input(NEXT if waiting else FIRST)
        except EOFError:
            print()
            break
        except KeyboardInterrupt:
            print()
            waiting = ""
            continue
        if not waiting and line.strip().startswith("."):
            if not _command(queries, line.strip()):
                break
            continue
        waiting = f"{waiting}\n{line}" if waiting else line
        if not waiting.strip():
            waiting = ""
        elif waiting.rstrip().endswith(";"):
            started = time.monotonic()
            try:
                count = carry_out(waiting)
                print(f"{count} row{'' if count == 1 else 's'}, {time.monotonic() - started:.2f} s")
            except QueryFailed as error:
                complain(str(error))
            except KeyboardInterrupt:
                print("stopped")
            waiting = ""
    _keep(history)
    return 0


def _command(queries: TopicQueries, line: str) -> bool:
    """Carry out a command of the prompt's own; False to leave."""
    if line in (".exit", ".quit"):
        return False
    if line == ".topics":
        print("\n".join(queries.topics()) or "no topics")
    else:
        print(HELP)
    return True


def _history() -> Path:
    """Load what was typed before; where it is kept."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    path = Path(state) / "towpath" / "sql_history"
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(HISTORY_LINES_MAX)
    return path


def _keep(history: Path) -> None:
    """A history that cannot be written is not worth a failure."""
    with contextlib.suppress(OSError):
        history.parent.mkdir(parents=True, exist_ok=True)
        readline.write_history_file(history)
