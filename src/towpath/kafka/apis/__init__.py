"""One file per Kafka API: its versions registered beside its handler."""
