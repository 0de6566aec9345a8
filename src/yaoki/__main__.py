"""`python -m yaoki` is the command `yaoki`."""

from __future__ import annotations

import sys

from yaoki.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
