"""One file per family of metadata keys: key, value, encode, decode."""

ROOT = "/dray/v1"
