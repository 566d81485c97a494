"""``python -m dubio``: the command line."""

import sys

from dubio.cli import main

if __name__ == "__main__":
    sys.exit(main())
