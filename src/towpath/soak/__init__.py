"""The soak: brokers under load and kills, and a reconciliation of every record at the end."""
