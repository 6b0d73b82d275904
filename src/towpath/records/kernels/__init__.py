"""Compiled loops over record bytes. Importing a kernel's module loads numba; the loader does it
in the background, and nothing else may import one at start."""
