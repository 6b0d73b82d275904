"""Runs the Java classes of Apache Kafka's command line tools."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

JAVA_DIR = Path(__file__).resolve().parents[1] / "java"
TOOL_TIMEOUT_S = 120
CACHE_DIR = JAVA_DIR.parents[2] / ".cache" / "kafka"
JVM_FLAGS = (
    "-Xshare:auto",
    "-Xlog:disable",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    f"-Dlog4j2.configurationFile={JAVA_DIR / 'log4j2.properties'}",
)


@dataclass(frozen=True)
class ToolResult:
    """How a tool ended and what it said."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """Everything it said, for messages and for errors that some tools print on stdout."""
        return self.stdout + self.stderr

    def lines(self) -> list[str]:
        """The lines of stdout that are not empty."""
        return [line for line in self.stdout.splitlines() if line.strip()]


@functools.lru_cache(maxsize=1)
def class_path() -> str:
    """The class path that `java/prepare.py` makes."""
    return str(_prepare().class_path())


def class_archive() -> Path:
    """Where the JVM's archive of loaded classes lies: with it a tool starts in half the time. The
    JVM itself ignores one that does not fit its version or the jars."""
    digest = hashlib.sha256(class_path().encode()).hexdigest()[:16]
    return CACHE_DIR / f"tools-{digest}.jsa"


def _prepare() -> ModuleType:
    spec = importlib.util.spec_from_file_location("towpath_java_prepare", JAVA_DIR / "prepare.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def java_command(
    main_class: str, *args: str, heap_mb: int = 128, flags: tuple[str, ...] = ()
) -> list[str]:
    """The command that runs a class of Kafka's jars."""
    if not flags and class_archive().exists():
        flags = (f"-XX:SharedArchiveFile={class_archive()}",)
    return ["java", "-cp", class_path(), f"-Xmx{heap_mb}m", *JVM_FLAGS, *flags, main_class, *args]


def java_tool(main_class: str, *args: str, stdin: str = "") -> ToolResult:
    """Run a tool to its end. Raises subprocess.TimeoutExpired after two minutes."""
    if not class_archive().exists() and main_class.endswith(".TopicCommand"):
        return _run_and_archive(main_class, *args)
    return _run(java_command(main_class, *args), stdin)


def _run_and_archive(main_class: str, *args: str) -> ToolResult:
    """Run the tool that stands for all of them, and keep the classes it loaded."""
    made = class_archive().with_suffix(f".{os.getpid()}")
    result = _run(java_command(main_class, *args, flags=(f"-XX:ArchiveClassesAtExit={made}",)), "")
    if made.exists():
        made.rename(class_archive())
    return result


def _run(command: list[str], stdin: str) -> ToolResult:
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S
    )
    return ToolResult(done.returncode, done.stdout, done.stderr)
