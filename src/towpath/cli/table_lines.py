"""Lines to copy that read a table with other programs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from towpath.cli.table_catalog import REST, CatalogPlace
from towpath.config.secrets import shown_properties

ICEBERG_VERSION = "1.12.0"
ICEBERG_RUNTIME = f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{ICEBERG_VERSION}"
"""For Spark 4.1, the version that Towpath itself runs."""
SQLITE_DRIVER = "org.xerial:sqlite-jdbc:3.53.4.0"
SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
JDBC_CATALOG = "org.apache.iceberg.jdbc.JdbcCatalog"
SERVICES = {
    "s3": ("iceberg-aws-bundle", "org.apache.iceberg.aws.s3.S3FileIO"),
    "gs": ("iceberg-gcp-bundle", "org.apache.iceberg.gcp.gcs.GCSFileIO"),
    "abfss": ("iceberg-azure-bundle", "org.apache.iceberg.azure.adlsv2.ADLSFileIO"),
}
"""What Spark needs to read files of a service: Iceberg's package and its class."""
SERVICE_PROPERTIES = ("s3.", "client.", "gcs.", "adls.")
REGION, JAVA_REGION = "s3.region", "client.region"
"""pyiceberg's name and that of Iceberg for Java."""
OWN_PROPERTIES = "towpath."


@dataclass(frozen=True, slots=True)
class ReadLines:
    """How to read a table, by program; each stands alone."""

    pyiceberg: str
    duckdb: str
    spark_sql: str | None
    """None if Spark has no catalog of this kind."""


def read_lines(place: CatalogPlace, name: str, warehouse: str) -> ReadLines:
    """The lines for one table. `warehouse` is the URI where the cluster keeps its tables. Secrets
    of the catalog are left out: whoever copies the lines fills them in."""
    shown = {
        key: value
        for key, value in shown_properties(place.properties).items()
        if not key.startswith(OWN_PROPERTIES)
    }
    table = [
        "from pyiceberg.catalog import load_catalog",
        f"catalog = load_catalog({place.name!r}, {_arguments(shown)})",
        f"table = catalog.load_table({(*place.namespace, name)!r})",
    ]
    query = 'duckdb.sql("SELECT * FROM records LIMIT 5").show()'
    return ReadLines(
        pyiceberg="\n".join([*table, "print(table.scan(limit=5).to_arrow())"]),
        duckdb="\n".join(["import duckdb", *table, *_for_duckdb(warehouse), query]),
        spark_sql=_spark_sql(place, shown, name, warehouse),
    )


def _for_duckdb(warehouse: str) -> list[str]:
    """Lines that make `records` of `table`. DuckDB reads local files itself, and those of a service
    only with an extension: there pyiceberg reads them."""
    if urlsplit(warehouse).scheme in SERVICES:
        return ["records = table.scan().to_arrow_batch_reader()"]
    return [
        "files = [task.file.file_path for task in table.scan().plan_files()]",
        # The files' directories are named after columns that the files themselves have.
        "records = duckdb.read_parquet(files, hive_partitioning=False)",
    ]


def _arguments(properties: Mapping[str, str]) -> str:
    if all(name.isidentifier() for name in properties):
        return ", ".join(f"{name}={value!r}" for name, value in properties.items())
    return f"**{dict(properties)!r}"


def _spark_sql(
    place: CatalogPlace, shown: Mapping[str, str], name: str, warehouse: str
) -> str | None:
    found = _spark_catalog(place, shown, warehouse)
    if found is None:
        return None
    packages, conf = found
    service = SERVICES.get(urlsplit(warehouse).scheme)
    if service is not None:
        bundle, conf["io-impl"] = service
        packages.append(f"org.apache.iceberg:{bundle}:{ICEBERG_VERSION}")
    catalog = f"spark.sql.catalog.{place.name}"
    flags = [("--packages", ",".join(packages)), ("--conf", f"{catalog}={SPARK_CATALOG}")]
    flags += [("--conf", f"{catalog}.{key}={value}") for key, value in conf.items()]
    # Without it Spark starts a metastore of its own, which takes long and leaves files behind.
    flags.append(("--conf", "spark.sql.catalogImplementation=in-memory"))
    path = ".".join(f"`{part}`" for part in (place.name, *place.namespace, name))
    flags.append(("-e", f"SELECT * FROM {path} LIMIT 5"))
    return " \\\n  ".join(["spark-sql", *(f"{flag} {shlex.quote(value)}" for flag, value in flags)])


def _spark_catalog(
    place: CatalogPlace, shown: Mapping[str, str], warehouse: str
) -> tuple[list[str], dict[str, str]] | None:
    """Packages and properties of the catalog; None for one that Spark may not know."""
    for_java = {JAVA_REGION if key == REGION else key: value for key, value in shown.items()}
    if place.sqlite_file is not None:
        conf = {
            "catalog-impl": JDBC_CATALOG,
            "uri": f"jdbc:sqlite:{place.sqlite_file}",
            "warehouse": warehouse,
        }
        conf |= {k: v for k, v in for_java.items() if k.startswith(SERVICE_PROPERTIES)}
        return [ICEBERG_RUNTIME, SQLITE_DRIVER], conf
    return ([ICEBERG_RUNTIME], for_java) if place.properties["type"] == REST else None
