"""What the forager's world is made of, and how one is set or drawn at random.

The world is that of Karpathy's demonstration of deep Q-learning (ConvNetJS, `rldemo.js`), in which
Gal & Ghahramani 2016, section 5.4, compare ways to explore. Lengths are in pixels, y points down.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol, final

import numpy as np

WIDTH, HEIGHT = 700.0, 500.0
RADIUS = 10.0  # of the forager and of items
CAPACITY = 30  # items at the start, and at most
NOTHING, WALL, APPLE, POISON = -1, 0, 1, 2
START = (50.0, 50.0, 0.0)

Item = tuple[float, float, int, int]
"""x, y, type (1 an apple, 2 poison) and age in ticks."""
Pose = tuple[float, float, float]
"""x, y and angle θ; the forager looks along (sin θ, cos θ)."""


def _box(x: float, y: float, width: float, height: float) -> list[tuple[float, ...]]:
    """Four walls as (x1, y1, x2, y2): top, right, bottom, left."""
    right, bottom = x + width, y + height
    return [
        (x, y, right, y),
        (right, y, right, bottom),
        (right, bottom, x, bottom),
        (x, bottom, x, y),
    ]


WALLS = np.array(
    [
        *_box(10, 10, WIDTH - 20, HEIGHT - 20),
        *_box(100, 100, 200, 300)[:3],  # open to the left
        *_box(400, 100, 200, 300)[:3],
    ],
    dtype=np.float64,
)  # (10, 4)


class Uniforms(Protocol):
    """Where random numbers come from, such as a `numpy.random.Generator`."""

    def random(self) -> float:
        """A number between 0 and 1."""
        ...


def draw_item(source: Uniforms) -> Item:
    """A new item anywhere, apple or poison with equal odds."""
    x = source.random() * (WIDTH - 40) + 20
    y = source.random() * (HEIGHT - 40) + 20
    return x, y, math.floor(source.random() * 2 + 1), 0


@final
@dataclass(frozen=True)
class Layout:
    """A world at one moment: items in the order in which they came, pose and clock."""

    items: tuple[Item, ...]
    pose: Pose = START
    clock: int = 0

    @staticmethod
    def from_options(options: Mapping[str, Any] | None, source: Uniforms) -> "Layout":
        """The world that `reset(options=...)` asks for.

        Args:
            options: `items`, `pose` and `clock`. What is not given is as at the start: 30 random
                items, (50, 50, 0) and 0.
            source: Of the random items; untouched if items are given.
        """
        options = {} if options is None else options
        if not isinstance(options, Mapping):
            raise TypeError(f"options: expected a dict or None, got {type(options).__name__}.")
        unknown = sorted(map(str, set(options) - {"items", "pose", "clock"}))
        if unknown:
            raise ValueError(f"options: expected items, pose and clock, got {', '.join(unknown)}.")
        pose = _pose(options["pose"]) if "pose" in options else START
        clock = _count("clock", options["clock"]) if "clock" in options else 0
        if "items" in options:
            items = _items(options["items"])
        else:
            items = tuple(draw_item(source) for _ in range(CAPACITY))
        return Layout(items, pose, clock)


def _items(items: Any) -> tuple[Item, ...]:
    rows = _row("items", items)
    if len(rows) > CAPACITY:
        raise ValueError(f"items: expected at most {CAPACITY}, got {len(rows)}.")
    return tuple(_item(f"items[{index}]", row) for index, row in enumerate(rows))


def _item(name: str, row: Any) -> Item:
    x, y, kind, age = _row(name, row, "(x, y, type, age)", 4)
    if isinstance(kind, bool) or not isinstance(kind, Real) or kind not in (APPLE, POISON):
        raise ValueError(f"{name}: expected type 1 (apple) or 2 (poison), got {kind!r}.")
    return (
        _between(f"{name}, x", x, WIDTH),
        _between(f"{name}, y", y, HEIGHT),
        int(float(kind)),
        _count(f"{name}, age", age),
    )


def _pose(pose: Any) -> Pose:
    x, y, angle = _row("pose", pose, "(x, y, angle)", 3)
    return (
        _between("pose, x", x, WIDTH),
        _between("pose, y", y, HEIGHT),
        _between("pose, angle", angle, 2 * math.pi),
    )


def _row(name: str, row: Any, form: str = "a list", length: int | None = None) -> Sequence[Any]:
    if isinstance(row, np.ndarray):
        row = row.tolist()
    if not isinstance(row, Sequence) or isinstance(row, str):
        raise TypeError(f"{name}: expected {form}, got {row!r}.")
    if length is not None and len(row) != length:
        raise ValueError(f"{name}: expected {form}, got {len(row)} numbers: {row!r}.")
    return row


def _between(name: str, number: Any, high: float) -> float:
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(f"{name}: expected a number, got {number!r}.")
    if not 0 <= float(number) <= high:
        raise ValueError(f"{name}: expected 0 to {high:g}, got {number!r}.")
    return float(number)


def _count(name: str, number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, Real) or not float(number).is_integer():
        raise TypeError(f"{name}: expected a whole number, got {number!r}.")
    if float(number) < 0:
        raise ValueError(f"{name}: expected 0 or more, got {number!r}.")
    return int(float(number))
