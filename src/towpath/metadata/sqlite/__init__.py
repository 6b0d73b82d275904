"""The metadata store on one SQLite file, shared by all processes of one host."""

from towpath.metadata.sqlite.limits import SqliteLimits
from towpath.metadata.sqlite.store import SqliteStore

__all__ = ["SqliteLimits", "SqliteStore"]
