"""An adversarial digit, as Clark et al. 2022 shows one."""

from functools import partial

import numpy as np
from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import house_style
from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Row, Rows
from dubio_studies.framework.study import Page

SIDE = 28


def images(rows: Rows) -> list[Row]:
    """The images by ε, the original first."""
    return sorted(rows.where(metric="image"), key=lambda row: float(row["epsilon"]))


def fooled(rows: Rows) -> Finding:
    """What the network takes the digit for, by ε."""
    found = images(rows)
    text = ", ".join(
        f"ε = {row['epsilon']:g}: {row['taken_for']} ({row['chance']:.0%})" for row in found
    )
    right = found[0]["taken_for"] == found[0]["label"]
    wrong = found[-1]["taken_for"] != found[-1]["label"]
    return Finding(f"a {found[0]['label']}; {text}", right and wrong)


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        Plot(
            "digit",
            "Figure 4: an image, the sign of its gradient, and adversarial examples",
            "A digit, the sign of the gradient for every pixel, and the digit changed by it",
            partial(draw, rows),
            wide=(12.0, 2.6),
            narrow=(5.0, 5.6),
            note="Above each: ε, and what the network takes it for.",
        )
    ]


@house_style()
def draw(rows: Rows, size: Size) -> Figure:
    """A panel for each image."""
    figure = Figure(figsize=size, layout="constrained")
    first, *others = images(rows)
    shown = [
        (f"a {first['label']}", first),
        ("sign of the gradient", rows.row(metric="sign")),
        *((f"ε = {row['epsilon']:g}: {row['taken_for']}", row) for row in others),
    ]
    columns = len(shown) if size[0] > size[1] else 2
    lines = -(-len(shown) // columns)
    for place, (title, row) in enumerate(shown, start=1):
        panel = figure.add_subplot(lines, columns, place)
        pixels = np.frombuffer(bytes.fromhex(row["value"]), dtype=np.uint8).reshape(SIDE, SIDE)
        panel.imshow(pixels, cmap="gray_r", vmin=0, vmax=255)
        panel.set_title(title, fontsize=9)
        panel.set_axis_off()
    return figure


CLAIMS = (
    Claim(
        "Small changes along the sign of the gradient make a network err.",
        "figure 4",
        "The digit is recognised, and after the largest change it is not.",
        fooled,
    ),
)

PAGE = Page(CLAIMS, exhibits)
