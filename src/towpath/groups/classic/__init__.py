"""Groups whose members assign partitions themselves: the classic rebalance protocol."""
