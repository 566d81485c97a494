"""The look of all pages and figures, and the way from a figure to SVG, PNG or a data address.

A figure is drawn once, in the light palette. In the SVG every colour becomes a CSS variable, so
that the page decides between light and dark. Hues are from Okabe and Ito's palette, which people
with colour-blindness can tell apart.
"""

import base64
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.image import imsave
from numpy.typing import NDArray

PALETTE = {  # name: (light, dark)
    "ink": ("#1d2329", "#e8e6e1"),
    "quiet": ("#69717b", "#9aa2ab"),
    "rule": ("#d5d8dc", "#3a4048"),
    "blue": ("#0072b2", "#5cb3e6"),
    "vermilion": ("#d55e00", "#f58b3c"),
    "green": ("#009e73", "#3ecba0"),
    "purple": ("#b4568f", "#e29cc4"),
}

INK, QUIET, RULE, BLUE, VERMILION, GREEN, PURPLE = (light for light, _ in PALETTE.values())

NARROW = 8.0  # inches: panels of figures that are less wide stand one upon the other

STYLE: dict[Any, Any] = {
    "axes.edgecolor": RULE,
    "axes.labelcolor": QUIET,
    "axes.labelsize": 11,
    "axes.linewidth": 1.0,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.titlesize": 12,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "font.size": 11,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": RULE,
    "xtick.labelcolor": QUIET,
    "ytick.color": RULE,
    "ytick.labelcolor": QUIET,
}


@contextmanager
def house_style() -> Iterator[None]:
    """Figures made inside follow ``STYLE``."""
    with mpl.rc_context(STYLE):
        yield


def css_variables(theme: int) -> str:
    """Return the palette as CSS declarations: theme 0 is light, 1 is dark."""
    return " ".join(f"--{name}: {shades[theme]};" for name, shades in PALETTE.items())


def stylesheet() -> str:
    """Return the rules that all pages share, for light and dark, wide and narrow screens."""
    rules = files("dubio.report.ink").joinpath("page.css").read_text(encoding="utf-8")
    return Template(rules).substitute(light=css_variables(0), dark=css_variables(1))


def to_svg(figure: Figure, name: str, description: str) -> str:
    """Return the figure as an inline SVG element.

    Args:
        figure: what to draw.
        name: told apart from every other figure on the page; becomes a class, and keeps the
            identifiers inside the drawing unique.
        description: read aloud in place of the picture.
    """
    buffer = io.StringIO()
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r"<!--.*?-->", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r"<style.*?</style>", "", drawing, flags=re.DOTALL)  # would rule the page
    drawing = re.sub(r' id="[\w.]+_\d+"', "", drawing)  # axes_1, line2d_7 …
    drawing = drawing.replace("xlink:href", "href")
    view_box = re.search(r'viewBox="[^"]+"', drawing)
    assert view_box is not None
    body = drawing[drawing.index(">") + 1 :]
    for role, (light, _) in PALETTE.items():
        body = body.replace(light, f"var(--{role})")
    body = re.sub(r' d="[^"]+"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path.group()), body)
    opening = f'<svg class="{name}" role="img" aria-label="{escape(description)}"'
    return f"{opening} {view_box.group()}>{body.strip()}"


def to_png(figure: Figure, dots_per_inch: int = 160) -> bytes:
    """Return the figure as a PNG on white."""
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format="png", dpi=dots_per_inch, facecolor="white")
    return buffer.getvalue()


def as_strokes(image: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn intensities (H, W) into black ink of that opacity (H, W, 4)."""
    rgba = np.zeros((*image.shape, 4))
    rgba[..., 3] = np.clip(image, 0, 1)
    return rgba


def to_address(image: NDArray[np.float64]) -> str:
    """Return a small image as a ``data:`` address, black ink on a transparent ground."""
    buffer = io.BytesIO()
    imsave(buffer, as_strokes(image), format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
