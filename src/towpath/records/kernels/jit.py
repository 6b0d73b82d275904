"""How kernels are compiled: without the GIL, bounds-checked, cached on disk where that is possible.

Importing this module loads numba. The cache lies in NUMBA_CACHE_DIR if that is set, else in the
user's cache directory (`$XDG_CACHE_HOME/towpath/numba`), under a name made from the sources, since
numba itself does not notice a changed constant of another module. Without a writable directory
kernels are compiled anew in each process. A shared temporary directory is never used: what lies in
the cache is executed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

CACHE_VARIABLE: Final = "NUMBA_CACHE_DIR"


def cache_directory() -> Path:
    """Where compiled kernels are kept."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "towpath" / "numba" / _sources_name()


def _sources_name() -> str:
    here = Path(__file__).parent
    sources = sorted([*here.glob("*.py"), *here.parent.glob("*.py")])
    return hashlib.sha256(b"\0".join([source.read_bytes() for source in sources])).hexdigest()[:16]


def is_writable(directory: Path) -> bool:
    """Whether a file can be made there; creates the directory if it is missing."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def _prepare_cache() -> bool:
    """Point numba at the cache directory; False if nothing can be kept there."""
    try:
        directory = cache_directory()
    except (RuntimeError, OSError):
        # The user has no home directory, or the sources lie in an archive.
        return False
    if not is_writable(directory):
        return False
    os.environ[CACHE_VARIABLE] = str(directory)
    return True


CACHED: Final = _prepare_cache()

import numba  # noqa: E402  (numba reads the environment when it is imported)

kernel = numba.njit(  # type: ignore[call-overload]
    nogil=True, cache=CACHED, boundscheck=True, _nrt=False
)
"""Decorator of kernels, which allocate nothing. Without `_nrt=False` each call of a helper would
count references to the array, which takes three times as long as the walk itself."""
