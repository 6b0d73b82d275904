"""One typed settings tree: YAML file, then `TOWPATH_*` environment, then flags."""

from __future__ import annotations

from towpath.config.errors import ConfigError
from towpath.config.load import Loaded, load_settings
from towpath.config.settings import Settings

__all__ = ["ConfigError", "Loaded", "Settings", "load_settings"]
