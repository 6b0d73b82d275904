"""A Java for a Spark session of one's own, where none is installed."""

from __future__ import annotations

import os
from pathlib import Path

SHIM_DIR = Path("~/.cache/towpath/java")


def use_java() -> Path:
    """Set JAVA_HOME, for sessions that this process starts from now on, to the Java that comes with
    the package, unless it names one that runs Spark; what it is then. Raises JavaNotFound."""
    from towpath.lakehouse.java import find_java

    home = find_java(SHIM_DIR.expanduser()).home
    os.environ["JAVA_HOME"] = str(home)
    return home
