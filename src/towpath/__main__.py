"""`python -m towpath`."""

from __future__ import annotations

from towpath.cli.main import main

if __name__ == "__main__":
    main()
