"""The settings and environment of a driver's JVM."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import towpath
from towpath.lakehouse.java import Java
from towpath.lakehouse.runners.runner import RunnerUnavailable
from towpath.lakehouse.runners.spark_directory import SessionDirectory
from towpath.lakehouse.runners.spark_settings import BIND_ADDRESS, DRIVER_HOST, SparkSettings

APP_NAME = "towpath"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
PYTHON_PATH = "spark.executorEnv.PYTHONPATH"
WORKER_DAEMON = "towpath.lakehouse.runners.worker_daemon"
LOG_FILE = "spark.log"
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""The JVM passes bytes on; the work is Python's. The quick compiler and the plain collector halve
the CPU time of a start. Settings of the user come later on the command line and win."""
LIMITS = {
    "spark.port.maxRetries": "64",
    "spark.rpc.message.maxSize": "512",
    "spark.task.maxFailures": "4",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "2000",
    "spark.sql.ui.retainedExecutions": "50",
}

_LOG4J = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss,SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.conf.name = org.apache.spark.SparkConf
logger.conf.level = error
"""


def write_conf(settings: SparkSettings, directory: SessionDirectory) -> Path:
    """Write the settings of a session into its directory: the file for `--properties-file`, which
    only its owner may read, since settings can hold secrets."""
    log4j = directory.path / "log4j2.properties"
    log_file = settings.work_dir / LOG_FILE
    log4j.write_text(_LOG4J.format(file=_escape(str(log_file))), encoding="ascii")
    options = [
        *QUICK_START,
        "-Xms32m",
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",
        f"-XX:ErrorFile={settings.work_dir}/hs_err_%p.log",
        f"-Djava.io.tmpdir={directory.subdirectory('tmp')}",
        f"-Dlog4j2.configurationFile={log4j.as_uri()}",
    ]
    conf = session_conf(settings, directory)
    quoted = " ".join(map(_quote, options))
    conf[JAVA_OPTIONS] = f"{quoted} {conf.get(JAVA_OPTIONS, '')}".rstrip()
    file = directory.path / "spark.properties"
    lines = [f"{_escape(name)}={_escape(value)}\n" for name, value in sorted(conf.items())]
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as out:
        out.writelines(lines)
    return file


def session_conf(settings: SparkSettings, directory: SessionDirectory) -> dict[str, str]:
    """Spark's settings of a session, without the options of its JVM."""
    conf = {
        **LIMITS,
        "spark.app.name": APP_NAME,
        "spark.master": settings.master,
        "spark.driver.memory": f"{settings.driver_memory_mb}m",
        "spark.local.dir": str(directory.subdirectory("local")),
        "spark.python.daemon.module": WORKER_DAEMON,
        "spark.sql.warehouse.dir": (directory.path / "warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.ui.enabled": "false" if settings.ui_port is None else "true",
        "spark.ui.showConsoleProgress": "false",
    }
    if (hosts := settings.driver_hosts) is not None:
        conf[BIND_ADDRESS], conf[DRIVER_HOST] = hosts
    if settings.ui_port is not None:
        conf["spark.ui.port"] = str(settings.ui_port)
    if path := python_path():
        conf[PYTHON_PATH] = path
    return {**conf, **settings.conf}


def environment(
    settings: SparkSettings, java: Java, inherited: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a driver's JVM. A session on this machine takes nothing over from a Spark
    that may be installed on it; one on a cluster does, as Spark's users expect."""
    given = os.environ if inherited is None else inherited
    kept = {
        name: value
        for name, value in given.items()
        if not (settings.is_local and name.startswith(("SPARK_", "PYSPARK_")))
    }
    kept.pop("PYTHONPATH", None)
    if path := python_path(given.get("PYTHONPATH", "")):
        kept["PYTHONPATH"] = path
    hosts = settings.driver_hosts
    return {
        **kept,
        **({"SPARK_LOCAL_IP": hosts[0]} if hosts is not None else {}),
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": settings.conf.get("spark.pyspark.python", sys.executable),
        "SPARK_CONNECT_MODE": "0",
        "SPARK_HOME": str(spark_home()),
        "SPARK_LAUNCHER_OPTS": " ".join(QUICK_START),
    }


def spark_home() -> Path:
    """Where the Spark that belongs to this Python's pyspark is. Does not load pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise RunnerUnavailable("the Python package pyspark is not installed")
    return Path(spec.origin).parent


def python_path(inherited: str = "") -> str:
    """What makes Towpath importable for a worker that this Python runs, wherever it is started:
    nothing if Towpath is installed."""
    source = Path(towpath.__file__).resolve().parents[1]
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    first = [] if source in installed else [str(source)]
    given = [os.path.abspath(entry) for entry in inherited.split(os.pathsep) if entry]
    return os.pathsep.join(dict.fromkeys([*first, *given]))


def _quote(option: str) -> str:
    """An option as Spark's launcher takes it apart again."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if " " in option or escaped != option else option


def _escape(text: str) -> str:
    """The text as a name or value of a Java properties file."""
    written = []
    for char in text:
        if char in "\\:=#! \t":
            written.append("\\" + char)
        elif " " < char <= "~":
            written.append(char)
        else:
            units = char.encode("utf-16-be")
            written += [f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2)]
    return "".join(written)
