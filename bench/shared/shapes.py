"""Records of a topic: their size, and how the producer compresses them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Records of a topic."""

    record_bytes: int
    compression: str

    @property
    def size_id(self) -> str:
        """The part of a row's id that names the size."""
        return "100b" if self.record_bytes == 100 else "1k"

    @property
    def size_title(self) -> str:
        """For people."""
        return f"{'100 B' if self.record_bytes == 100 else '1 KB'} records"

    @property
    def id(self) -> str:
        """The part of a row's id that names the shape."""
        return f"{self.size_id}-{self.compression}"

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.size_title}, {self.compression}"
