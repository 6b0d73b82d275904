"""Which processes live, and whose children they are."""

from __future__ import annotations

import contextlib
import ipaddress
from pathlib import Path

from tests.integration.harness.waiting import wait_until

LISTEN = "0A"


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and that nobody waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def descendants(pid: int) -> list[int]:
    """The children of a process, and theirs, that live now."""
    found = [pid]
    for parent in found:
        found += [child for child in _children(parent) if is_alive(child)]
    return found[1:]


def wait_until_gone(pids: list[int], *, timeout_s: float = 20.0) -> None:
    """Wait until none of the processes lives."""
    wait_until(lambda: not any(map(is_alive, pids)), f"processes {pids} gone", timeout_s=timeout_s)


def listening_addresses(pid: int) -> set[str]:
    """The addresses of the TCP ports on which a process takes connections."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(entry.readlink().name.removeprefix("socket:[").removesuffix("]"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN and fields[9] in inodes:
                found.add(_readable(fields[1].partition(":")[0]))
    return found


def _readable(address: str) -> str:
    """An address as the kernel writes it: words in the machine's order, which is little-endian."""
    data = b"".join(bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, len(address), 8))
    parsed = ipaddress.ip_address(data)
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
