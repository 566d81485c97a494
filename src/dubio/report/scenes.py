"""Strips of image, truth, prediction, uncertainty and errors.

Arrays in, a figure out. `dubio.metrics.plots.draw_scenes` makes the arrays from predictions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from dubio.report.ink import NARROW, QUIET, VERMILION, house_style

Picture = NDArray[np.floating[Any]]  # (H, W, 3), in [0, 1]

VOID = "#a9adb3"  # grey, which no map of numbers and no class has
MAP = "magma"  # from black, no doubt, to pale yellow
DISAGREEMENT = math.log(2)  # nats: half of the draws are sure of one class, half of another
TITLES = ("image", "truth", "prediction", "entropy", "mutual information", "errors")
SCALES = TITLES[3:5]  # those with a colour bar
GAP, HEAD, FOOT, LINE = 0.08, 0.30, 0.45, 0.22  # inches: panels, titles, colour bars, legend


@final
@dataclass(frozen=True, eq=False)
class Scene:
    """An image with its true and predicted labels, pixel by pixel.

    Attributes:
        image: In [0, 1]: `(H, W, 3)`.
        truth: Class labels; anything where nothing is known: `(H, W)`.
        predicted: The same of the prediction.
        known: Where the label is not void: `(H, W)`.
        entropy: Of the prediction, in nats: `(H, W)`.
        mutual_information: Between prediction and network, in nats: `(H, W)`; None of a prediction
            without draws.
    """

    image: Picture
    truth: NDArray[np.integer[Any]]
    predicted: NDArray[np.integer[Any]]
    known: NDArray[np.bool_]
    entropy: NDArray[np.floating[Any]]
    mutual_information: NDArray[np.floating[Any]] | None


@house_style()
def draw_strips(
    scenes: Sequence[Scene],
    classes: Sequence[str],
    *,
    colours: Sequence[Any] | None = None,
    width: float = 12.0,
    most_information: float = DISAGREEMENT,
) -> Figure:
    """Draw image, truth, prediction, entropy, mutual information and errors per scene.

    Scales are the same in all strips and all figures: the entropy goes from 0 to log K, its largest
    value for K classes. The mutual information goes from 0 to log 2, its value where half of the
    draws are sure of one class and half of another, unless another end is given; larger ones look
    like the end. Void pixels are grey. Only classes that are seen are in the legend. Strips of
    narrow figures have three lines.

    Args:
        scenes: All of one size, and all with or without mutual information.
        classes: Names of the K classes.
        colours: One for every class, as matplotlib takes them.
        width: In inches; the height follows.
        most_information: Where colours of the mutual information end, in nats.
    """
    _check_alike(scenes)
    if not 0 < most_information < math.inf:
        raise ValueError(
            f"most_information: expected a number > 0, in nats, got {most_information}; leave it "
            "out for log 2"
        )
    palette = class_colours(len(classes)) if colours is None else _read_colours(colours, classes)
    strips = [_pictures(scene, palette, most_information) for scene in scenes]
    shown = [title for title in TITLES if title in strips[0]]
    narrow = width < NARROW
    grid = _Grid(width, 2 if narrow else len(shown), scenes[0].image.shape[:2], 3 if narrow else 1)
    legend = _legend(scenes, classes, palette)
    keys = -(-len(legend) // (3 if narrow else 4)) * LINE  # lines of the legend, in inches
    bars = grid.top(len(scenes))
    height = bars + FOOT + keys if narrow else bars + max(FOOT, keys)
    figure = Figure(figsize=(width, height))

    def add_axes(left: float, top: float, wide: float, high: float) -> Axes:  # inches
        place = (left / width, 1 - (top + high) / height, wide / width, high / height)
        return figure.add_axes(place)

    for row, strip in enumerate(strips):
        for place, title in enumerate(shown):
            down, right = divmod(place, grid.across)
            axes = add_axes(grid.left(right), grid.top(row, down), grid.side, grid.rise)
            axes.imshow(strip[title], interpolation="nearest", aspect="auto")
            axes.set_axis_off()
            if row == 0 or narrow:
                axes.set_title(title, pad=4)
    for place, title in enumerate(title for title in shown if title in SCALES):
        right = place if narrow else shown.index(title)
        bar = add_axes(grid.left(right), bars, grid.side, 0.12)
        most = _largest_entropy(len(classes)) if title == "entropy" else most_information
        _draw_bar(figure, bar, title, most, len(classes))
    figure.legend(
        handles=legend, ncols=3 if narrow else 4, loc="upper left", borderaxespad=0, borderpad=0,
        bbox_to_anchor=(GAP / width, 1 - (bars + (FOOT if narrow else 0)) / height),
        frameon=False, fontsize=9, labelcolor=QUIET, handlelength=1.2,
    )  # fmt: skip
    return figure


@final
class _Grid:
    """Where panels of equal size stand, in inches from the left and from the top."""

    def __init__(self, width: float, across: int, pixels: Sequence[int], lines: int) -> None:
        self.across, self._lines = across, lines
        self.side = (width - (across + 1) * GAP) / across
        self.rise = self.side * pixels[0] / pixels[1]
        self._step = self.rise + (HEAD if lines > 1 else GAP)

    def left(self, right: int) -> float:
        return GAP + right * (self.side + GAP)

    def top(self, row: int, down: int = 0) -> float:
        return HEAD + (row * self._lines + down) * self._step


def class_colours(classes: int) -> Picture:
    """Colours of so many classes, none of them grey: `(K, 3)`."""
    dark, light = mpl.colormaps["tab20"](range(20))[:, :3].reshape(10, 2, 3).swapaxes(0, 1)
    named = np.concatenate([np.delete(part, 7, axis=0) for part in (dark, light)])  # 7 is grey
    if classes <= len(named):
        return named[:classes]
    return mpl.colormaps["turbo"](np.linspace(0, 1, classes))[:, :3]


def _check_alike(scenes: Sequence[Scene]) -> None:
    kinds = {(scene.image.shape, scene.mutual_information is None) for scene in scenes}
    if len(kinds) != 1:
        raise ValueError(
            "scenes: expected at least one, all of one size and all with or without mutual "
            f"information, got {len(scenes)} of {len(kinds)} kinds; draw each kind by itself"
        )


def _read_colours(colours: Sequence[Any], classes: Sequence[str]) -> Picture:
    if len(colours) != len(classes):
        raise ValueError(
            f"colours: expected one for each of {len(classes)} classes, got {len(colours)}; void "
            "needs none, it is grey"
        )
    return np.array([to_rgb(colour) for colour in colours])


def _pictures(scene: Scene, palette: Picture, most_information: float) -> dict[str, Picture]:
    """Return the pictures of a strip, by title."""
    right = scene.predicted == scene.truth
    pictures = {
        "truth": palette[np.where(scene.known, scene.truth, 0)],
        "prediction": palette[scene.predicted],
        "entropy": _coloured(scene.entropy, _largest_entropy(len(palette))),
        "errors": np.where(right[..., None], _coloured(np.zeros(1), 1.0), to_rgb(VERMILION)),
    }
    if scene.mutual_information is not None:
        pictures["mutual information"] = _coloured(scene.mutual_information, most_information)
    for picture in pictures.values():
        picture[~scene.known] = to_rgb(VOID)
    return {"image": scene.image, **pictures}


def _coloured(values: NDArray[np.floating[Any]], most: float) -> Picture:
    return np.asarray(mpl.colormaps[MAP](np.clip(values / most, 0, 1)))[..., :3]


def _largest_entropy(classes: int) -> float:
    return math.log(max(2, classes))  # one class has entropy 0


def _draw_bar(figure: Figure, axes: Axes, title: str, most: float, classes: int) -> None:
    last = f"log {max(2, classes)} = " if title == "entropy" else "≥ "
    if title != "entropy" and most == DISAGREEMENT:
        last = "≥ log 2 = "
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, most), MAP), axes, orientation="horizontal", drawedges=False
    )
    bar.outline.set_visible(False)
    bar.set_ticks([0, most], labels=["0", f"{last}{most:.2f} nats"])
    axes.tick_params(length=0, labelsize=9)
    first, second = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    second.set_horizontalalignment("right")


def _legend(scenes: Sequence[Scene], classes: Sequence[str], palette: Picture) -> list[Patch]:
    seen = {
        int(label)
        for scene in scenes
        for labels in (scene.truth, scene.predicted)
        for label in np.unique(labels[scene.known])
    }
    patches = [Patch(color=tuple(palette[k]), label=classes[k]) for k in sorted(seen)]
    if not all(scene.known.all() for scene in scenes):
        patches.append(Patch(color=VOID, label="void"))
    return patches
