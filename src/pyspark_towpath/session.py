"""What a Spark session of one's own needs to find."""

from __future__ import annotations

import os
import sys
from pathlib import Path

SHIM_DIR = Path("~/.cache/towpath/java")


def prepare() -> None:
    """Set up this process for a Spark session that it starts later.

    JAVA_HOME becomes the Java that comes with the package, unless it names one that runs Spark.
    PYSPARK_PYTHON, unless it is set, becomes this Python: Spark takes `python3` otherwise, which in
    an environment that is not activated is another one, without Towpath. Raises JavaNotFound.
    """
    from towpath.lakehouse.java import find_java

    os.environ["JAVA_HOME"] = str(find_java(SHIM_DIR.expanduser()).home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
