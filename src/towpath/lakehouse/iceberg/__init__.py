"""Topics' tables in an Iceberg catalog, through pyiceberg."""
