"""Spark's Kafka source and Iceberg's runtime for Spark, from Maven."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from bench.errors import BenchError
from bench.paths import CACHE

RESOLVE_TIMEOUT_S = 900
SPARK_KAFKA = "4.1.3"
TOKEN_PROVIDER = "4.1.0-preview1"
"""The newest of the 4.1 line that is published; nothing of it is used without security."""
ICEBERG = "1.12.0"
NEEDED = (
    "spark-sql-kafka-",
    "spark-token-provider-kafka-",
    "kafka-clients-",
    "commons-pool2-",
    "iceberg-spark-runtime-",
)
"""What pyspark does not bring along itself."""

POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>towpath.bench</groupId>
  <artifactId>kafka-spark</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencyManagement>
    <dependencies>
      <dependency>
        <groupId>org.apache.spark</groupId>
        <artifactId>spark-token-provider-kafka-0-10_2.13</artifactId>
        <version>{TOKEN_PROVIDER}</version>
      </dependency>
    </dependencies>
  </dependencyManagement>
  <dependencies>
    <dependency>
      <groupId>org.apache.spark</groupId>
      <artifactId>spark-sql-kafka-0-10_2.13</artifactId>
      <version>{SPARK_KAFKA}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.iceberg</groupId>
      <artifactId>iceberg-spark-runtime-4.1_2.13</artifactId>
      <version>{ICEBERG}</version>
    </dependency>
  </dependencies>
</project>
"""


def spark_jars() -> list[str]:
    """The jars, resolved once per POM. BenchError when Maven cannot."""
    directory = CACHE / f"spark-{hashlib.sha256(POM.encode()).hexdigest()[:16]}"
    resolved = directory / "classpath.txt"
    if resolved.exists():
        jars = chosen(resolved.read_text())
        if all(Path(jar).exists() for jar in jars):
            return jars
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "pom.xml").write_text(POM)
    made = directory / f"classpath.{os.getpid()}"
    _resolve(directory / "pom.xml", made)
    made.rename(resolved)
    return chosen(resolved.read_text())


def chosen(class_path: str) -> list[str]:
    """The jars of a class path that Spark is given. BenchError if one is missing."""
    jars = [
        jar for jar in class_path.strip().split(os.pathsep) if Path(jar).name.startswith(NEEDED)
    ]
    if len(jars) != len(NEEDED):
        raise BenchError(f"Maven resolved {len(jars)} of {len(NEEDED)} jars: {' '.join(jars)}")
    return jars


def _resolve(pom: Path, output: Path) -> None:
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:build-classpath"]
    command.append(f"-Dmdep.outputFile={output}")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RESOLVE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchError(f"Maven could not be run: {error}") from error
    if done.returncode or not output.exists():
        raise BenchError(
            f"Maven could not resolve Spark's Kafka source and Iceberg:\n"
            f"{(done.stdout + done.stderr)[-4000:]}"
        )
