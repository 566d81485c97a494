"""Where the built page is."""

import webbrowser
from pathlib import Path

BUILT = Path(__file__).parent / "built" / "index.html"
"""What `make live` puts into the package, and a wheel carries if it was there."""


class PageNotBuiltError(RuntimeError):
    """The package has no page in it."""


def open_page() -> str:
    """Open the page in a browser; its address."""
    if not BUILT.is_file():
        raise PageNotBuiltError(
            f"expected the built page at {BUILT}, got none; in a clone of dubio run 'make live', "
            "which needs Node.js."
        )
    address = BUILT.resolve().as_uri()
    webbrowser.open(address)
    return address
