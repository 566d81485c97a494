"""What foragers see: nine rays each against walls and items, in N worlds at once.

Operations and their order are those of the original (ConvNetJS, `rldemo.js`), so that values agree
to the last bits. What is too far away to be seen is left out first; that changes no value.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dubio_studies.worlds.forager_layout import NOTHING, RADIUS, WALL, WALLS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

EYES = 9
RANGE = 85.0
ANGLES = (np.arange(EYES) - 3) * 0.25  # from −0.75 to 1.25: not symmetric
FARTHEST = float(np.hypot(RANGE + 2 * RADIUS, 2 * RADIUS)) / RANGE
"""1.2575, the largest number in an observation: items are misplaced by up to 20 pixels."""

_REACH = RANGE + 1  # of rays to walls, with a margin
_ITEM_REACH = float(np.hypot(RANGE + 2 * RADIUS, RADIUS)) + 0.5  # to centres of items: 106
_X, _Y = WALLS[:, 0], WALLS[:, 1]  # (10,)
_ALONG_X, _ALONG_Y = WALLS[:, 2] - _X, WALLS[:, 3] - _Y
_LEFT, _RIGHT = WALLS[:, ::2].min(1) - _REACH, WALLS[:, ::2].max(1) + _REACH
_TOP, _BOTTOM = WALLS[:, 1::2].min(1) - _REACH, WALLS[:, 1::2].max(1) + _REACH


@final
@dataclass(frozen=True, eq=False)
class Sight:
    """What every eye sees.

    Attributes:
        kind: `(N, 9)`: 0 a wall, 1 an apple, 2 poison, −1 nothing.
        distance: `(N, 9)`, in pixels; 85 where there is nothing.
    """

    kind: Ints
    distance: Floats

    def numbers(self) -> Floats:  # (N, 27)
        """Wall, apple and poison for each eye: distance / 85 for what it sees, else 1."""
        seen = np.ones((*self.kind.shape, 3))
        world, eye = np.nonzero(self.kind != NOTHING)
        seen[world, eye, self.kind[world, eye]] = self.distance[world, eye] / RANGE
        return seen.reshape(len(seen), -1)


def look(x: Floats, y: Floats, angle: Floats, items: tuple[Floats, Floats, Ints]) -> Sight:
    """What each eye sees first on its ray from (x, y) to (x, y) + 85·(sin, cos)(θ + its angle).

    Of a wall and an item that are equally near, the wall is seen; of two walls or items the first.

    Args:
        x: `(N,)`.
        y: `(N,)`.
        angle: θ, `(N,)`.
        items: x, y and type, `(N, I)`; NaN where there is none.
    """
    eye_angle = angle[:, None] + ANGLES  # (N, 9)
    dx = (x[:, None] + RANGE * np.sin(eye_angle)) - x[:, None]
    dy = (y[:, None] + RANGE * np.cos(eye_angle)) - y[:, None]
    kind = np.full(dx.shape, NOTHING)
    distance = np.full(dx.shape, RANGE)

    depth = _see_walls(x, y, dx, dy, kind, distance)
    _see_items(x, y, dx, dy, items, depth, kind, distance)
    return Sight(kind, distance)


def crosses_wall(x: Floats, y: Floats, to_x: Floats, to_y: Floats) -> Bools:  # (M,)
    """Whether a wall is between two points; one that is only touched is not."""
    column = slice(None), None
    dx, dy = (to_x - x)[column], (to_y - y)[column]
    depth = _wall_depth(x[column], y[column], dx, dy, (_X, _Y, _ALONG_X, _ALONG_Y))  # (M, 10)
    return np.asarray(np.isfinite(depth).any(1))


def _see_walls(
    x: Floats, y: Floats, dx: Floats, dy: Floats, kind: Ints, distance: Floats
) -> Floats:
    """Enter walls into kind and distance; how far along its ray each eye sees one, `(N, 9)`."""
    px, py = x[:, None], y[:, None]
    world, wall = np.nonzero((px >= _LEFT) & (px <= _RIGHT) & (py >= _TOP) & (py <= _BOTTOM))
    lines = (_X[wall, None], _Y[wall, None], _ALONG_X[wall, None], _ALONG_Y[wall, None])
    found = _wall_depth(px[world], py[world], dx[world], dy[world], lines)  # (P, 9)
    depth, _ = _nearest(found, world, len(x))

    row, eye = np.nonzero(np.isfinite(depth))
    step = depth[row, eye]
    off_x = (x[row] + step * dx[row, eye]) - x[row]
    off_y = (y[row] + step * dy[row, eye]) - y[row]
    kind[row, eye] = WALL
    distance[row, eye] = np.sqrt(off_x * off_x + off_y * off_y)
    return depth


def _see_items(
    x: Floats,
    y: Floats,
    dx: Floats,
    dy: Floats,
    items: tuple[Floats, Floats, Ints],
    depth: Floats,
    kind: Ints,
    distance: Floats,
) -> None:
    """Enter the items that are nearer than `depth` into kind and distance.

    An item is seen if its centre is at most 10 from the line of the ray. The place where it is seen
    is the centre moved by that distance along the normal (dy, −dx), always to the same side: the
    foot of the perpendicular if the centre is on the one side, and twice the distance away from it
    on the other. So is it in the original. How far along the ray that is, is measured along x or y,
    in whichever the ray is longer.
    """
    item_x, item_y, item_kind = items
    gap_x, gap_y = x[:, None] - item_x, y[:, None] - item_y  # (N, I)
    world, item = np.nonzero(gap_x * gap_x + gap_y * gap_y < _ITEM_REACH**2)
    from_x, from_y = gap_x[world, item, None], gap_y[world, item, None]  # (P, 1)
    at_x, at_y = item_x[world, item, None], item_y[world, item, None]

    length = np.sqrt(dy * dy + dx * dx)
    wide = np.abs(dx) > np.abs(dy)
    per_length = (1 / length)[world]  # (P, 9)
    ray_x, ray_y = dx[world], dy[world]
    beside = np.abs(ray_x * from_y - from_x * ray_y) / length[world]
    off_x = (at_x + ray_y * per_length * beside) - x[world, None]
    off_y = (at_y + -ray_x * per_length * beside) - y[world, None]
    along = np.where(wide[world], off_x, off_y) / np.where(wide, dx, dy)[world]
    hit = (beside <= RADIUS) & (along > 0) & (along < 1)
    item_depth, pair = _nearest(np.where(hit, along, np.inf), world, len(x))

    row, eye = np.nonzero(item_depth < depth)
    seen = pair[row, eye]
    kind[row, eye] = item_kind[row, item[seen]]
    seen_x, seen_y = off_x[seen, eye], off_y[seen, eye]
    distance[row, eye] = np.sqrt(seen_x * seen_x + seen_y * seen_y)


def _wall_depth(
    x: Floats, y: Floats, dx: Floats, dy: Floats, walls: tuple[Floats, Floats, Floats, Floats]
) -> Floats:
    """How far along a segment it meets a wall, strictly between 0 and 1; else infinity."""
    wall_x, wall_y, along_x, along_y = walls
    across = along_y * dx - along_x * dy
    across = np.where(across == 0, np.nan, across)  # parallel: nothing below is true
    from_x, from_y = x - wall_x, y - wall_y
    depth = (along_x * from_y - along_y * from_x) / across
    on_wall = (dx * from_y - dy * from_x) / across
    hit = (depth > 0) & (depth < 1) & (on_wall > 0) & (on_wall < 1)
    return np.where(hit, depth, np.inf)


def _nearest(depth: Floats, world: NDArray[np.intp], worlds: int) -> tuple[Floats, Ints]:
    """The least depth of each world and eye, and which pair it is; the first of equal ones.

    Args:
        depth: Of P pairs of a world and a thing, `(P, 9)`.
        world: Of each pair, ascending, `(P,)`.
        worlds: N.
    """
    counts = np.bincount(world, minlength=worlds)
    first = np.cumsum(counts) - counts  # (N,)
    place = np.arange(len(world)) - first[world]
    table = np.full((worlds, counts.max() + 1, EYES), np.inf)  # the last place is always free
    table[world, place] = depth
    which = table.argmin(1)  # (N, 9)
    least = np.take_along_axis(table, which[:, None], 1)[:, 0]
    return least, first[:, None] + which
