"""The object class: any broker appends; batches of many streams share WAL objects."""
