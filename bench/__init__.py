"""The benchmark: this broker, Apache Kafka and the machine's limits, measured in one run."""
