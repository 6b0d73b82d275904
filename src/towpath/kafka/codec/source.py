"""A small builder of Python source with constants, for the compilers of readers and writers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """Lines of one function under construction, and the constants it refers to."""

    def __init__(self, signature: str) -> None:
        self._lines = [f"def {signature}:"]
        self._depth = 1
        self._counter = 0
        self._names: dict[Any, str] = {}
        self.constants: dict[str, Any] = {}

    def line(self, text: str) -> None:
        """Add one line at the current indentation."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add `head:` and indent what follows."""
        self.line(head + ":")
        self._depth += 1
        yield
        self._depth -= 1

    def local(self, prefix: str) -> str:
        """A new local name."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def constant(self, prefix: str, value: Any, key: Any = None) -> str:
        """The name of a constant; equal keys (by default: the same object) share one."""
        identity = (prefix, id(value)) if key is None else (prefix, key)
        if identity not in self._names:
            name = f"{prefix}_{len(self.constants)}"
            self._names[identity] = name
            self.constants[name] = value
        return self._names[identity]

    def unpacker(self, codes: str) -> tuple[str, int]:
        """The name of `unpack_from` for these big-endian codes, and their size."""
        form = struct.Struct(">" + codes)
        return self.constant("unpack", form.unpack_from, codes), form.size

    def packer(self, codes: str) -> str:
        """The name of `pack` for these big-endian codes."""
        return self.constant("pack", struct.Struct(">" + codes).pack, codes)

    def text(self) -> str:
        """The whole source."""
        return "\n".join(self._lines) + "\n"

    def compile(self, name: str, helpers: dict[str, Any], origin: str) -> Callable[..., Any]:
        """The finished function."""
        namespace = {**helpers, **self.constants}
        # The source is made of schema data that ships with this package, never of input.
        exec(compile(self.text(), f"<codec {origin}>", "exec"), namespace)
        function: Callable[..., Any] = namespace[name]
        return function
