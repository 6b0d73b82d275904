"""The metadata store on one SQLite file, shared by all processes of one host."""
