"""Groups of the consumer protocol (KIP-848): pure logic on immutable state, without I/O."""
