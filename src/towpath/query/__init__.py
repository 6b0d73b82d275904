"""SQL over topics on one machine: DuckDB over the files that the index names, and the live tail."""
