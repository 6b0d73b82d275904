"""The Spark data source `towpath`. Spark looks for packages of this kind of name by itself, so that
`spark.read.format("towpath")` needs no registration."""

from pyspark_towpath.session import prepare
from pyspark_towpath.source import TowpathSource as DefaultSource

__all__ = ["DefaultSource", "prepare"]
