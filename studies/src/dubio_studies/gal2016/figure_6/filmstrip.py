"""Frames of a forager's life, side by side."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from dubio.report.exhibits import Size
from dubio.report.ink import BLUE, GREEN, INK, NARROW, QUIET, VERMILION, house_style
from dubio_studies.framework.rows import Rows
from dubio_studies.worlds.forager_layout import APPLE, HEIGHT, POISON, RADIUS, WALL, WALLS, WIDTH
from dubio_studies.worlds.forager_sight import ANGLES

AGENT = "thompson"
_COLOURS = {WALL: INK, APPLE: VERMILION, POISON: GREEN}


@house_style()
def draw_frames(rows: Rows, size: Size) -> Figure:
    """All frames of one agent."""
    own = rows.where(agent=AGENT)
    frames = own.where(metric="pose").distinct("frame")
    columns = 2 if size[0] <= NARROW else 3
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(-(-len(frames) // columns), columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, frame in zip(grid.flat, frames, strict=False):
        _draw_frame(axes, own.where(frame=frame))
    return figure


def _draw_frame(axes: Axes, rows: Rows) -> None:
    pose = rows.row(metric="pose")
    x, y, angle = float(pose["x"]), float(pose["y"]), float(pose["value"])
    for left, top, right, bottom in WALLS.tolist():
        axes.plot((left, right), (top, bottom), color=INK, linewidth=1.2)
    for eye in rows.where(metric="eye"):
        way = angle + float(ANGLES[int(eye["index"])])
        reach, colour = float(eye["value"]), _COLOURS.get(int(eye["kind"]), QUIET)
        ends = (x, x + reach * math.sin(way)), (y, y + reach * math.cos(way))
        axes.plot(*ends, color=colour, linewidth=0.8)
    for item in rows.where(metric="item"):
        place = float(item["x"]), float(item["y"])
        axes.add_patch(Circle(place, RADIUS, color=_COLOURS[int(item["value"])], linewidth=0))
    axes.add_patch(Circle((x, y), RADIUS, color=BLUE, linewidth=0))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(HEIGHT, 0)  # y goes down, as on the screen
    axes.set_aspect("equal")
