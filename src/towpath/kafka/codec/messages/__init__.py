"""Generated message classes, one module per API. See `codec/generate.py`."""
