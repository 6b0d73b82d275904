"""The stores of a system, as a reader in another process is told of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from towpath.errors import TowpathError
from towpath.lakehouse.runners.execute import open_objects
from towpath.reading.index import IndexReader, at_one_moment

if TYPE_CHECKING:
    from towpath.config import Settings
    from towpath.objects.worker import WorkerObjects

T = TypeVar("T")


class NothingToRead(TowpathError):
    """The settings name no stores that another process could read."""


@dataclass(frozen=True)
class Stores:
    """Plain values, so that they travel to workers."""

    metadata_path: Path
    objects_url: str
    objects_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the store's service, secrets too."""

    @classmethod
    def of(cls, settings: Settings) -> Stores:
        """Those that the settings name. Raises NothingToRead."""
        path = settings.metadata_path()
        if path is None:
            raise NothingToRead("metadata_url memory:// is one broker's own; nothing else sees it")
        if settings.objects_url.startswith("memory:"):
            raise NothingToRead("objects_url memory:// is one broker's own; nothing else sees it")
        if not path.exists():
            raise NothingToRead(f"nothing to read: {path} does not exist")
        return cls(path, settings.objects_url, dict(settings.objects_options))

    def at_one_moment(self, work: Callable[[IndexReader], T]) -> T:
        """What `work` reads of the metadata store. Raises StoreUnavailable."""
        return at_one_moment(self.metadata_path, work)

    def objects(self) -> WorkerObjects:
        """The objects; opened once per process."""
        options = tuple(sorted(self.objects_options.items()))
        objects: WorkerObjects = open_objects(self.objects_url, options)
        return objects
