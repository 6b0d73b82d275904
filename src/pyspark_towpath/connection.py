"""The stores of the system that the options name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_towpath.names import BadOption

if TYPE_CHECKING:
    from towpath.config import Settings

CONFIG = "config"
DATA_DIR = "data-dir"
CONNECTION_OPTIONS = (CONFIG, DATA_DIR)


def settings_of(options: Mapping[str, str]) -> Settings:
    """The settings of the system, from its file or the directory of its data. Raises BadOption."""
    from towpath.config import ConfigError, load_settings
    from towpath.config.load import Given

    file, data_dir = options.get(CONFIG), options.get(DATA_DIR)
    if file is None and data_dir is None:
        raise BadOption("give the option 'config', the system's YAML file, or 'data-dir'")
    flags = [] if data_dir is None else [Given("data_dir", data_dir, "option data-dir")]
    try:
        return load_settings(None if file is None else Path(file), flags).settings
    except ConfigError as error:
        raise BadOption(str(error)) from error
