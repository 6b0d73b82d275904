"""The jobs: pure functions of a plan row, executed by a runner."""
