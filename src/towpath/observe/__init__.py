"""What people see: metrics, logs, health."""
