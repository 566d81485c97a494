"""N worlds of foragers: who moves, eats, grows old and earns what in a tick."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final, get_args

import numpy as np

from dubio_studies.worlds.forager_layout import (
    APPLE,
    CAPACITY,
    HEIGHT,
    POISON,
    RADIUS,
    WALL,
    WIDTH,
    Item,
    Layout,
    Pose,
    Uniforms,
    draw_item,
)
from dubio_studies.worlds.forager_sight import (
    EYES,
    RANGE,
    Bools,
    Floats,
    Ints,
    Sight,
    crosses_wall,
    look,
)

Reward = Literal["gal", "karpathy"]
"""What a tick without a meal is worth: the mean p over eyes of distance / 85 for those that see a
wall, and 1 for the others; or min(1, 2p), as in Karpathy's demonstration. Gal's leaves that out."""

WHEELS = np.array([(1, 1), (0.8, 1), (1, 0.8), (0.5, 0), (0, 0.5)])  # (A, 2)
"""How far each action turns the wheels."""
FORWARD = 0
MEALS = {APPLE: 5.0, POISON: -6.0}

_TURN = 2 * math.pi
_COS, _SIN = np.cos(WHEELS), np.sin(WHEELS)
_WORTH = np.array([0.0, MEALS[APPLE], MEALS[POISON]])
_SLOTS = np.arange(CAPACITY)
_OLD, _OLD_EVERY, _OLD_SHARE = 5000, 100, 0.1
_NEW_EVERY, _NEW_SHARE = 10, 0.25


@final
@dataclass(frozen=True, eq=False)
class Scene:
    """One world at one moment, as `info` has it.

    Attributes:
        clock: Ticks so far.
        pose: x, y and angle.
        items: (x, y, type, age) of each.
        eye_kind: What each eye sees, `(9,)`: 0 a wall, 1 an apple, 2 poison, −1 nothing.
        eye_distance: How far away, in pixels, `(9,)`.
    """

    clock: int
    pose: Pose
    items: list[Item]
    eye_kind: Ints
    eye_distance: Floats


@final
class Worlds:
    """Foragers, each in a world of its own. All numbers are float64.

    Args:
        count: N.
        reward: What a tick is worth.
    """

    def __init__(self, count: int, reward: Reward = "gal") -> None:
        if reward not in get_args(Reward):
            raise ValueError(f"reward: expected 'gal' or 'karpathy', got {reward!r}.")
        self.reward = reward
        self.x, self.y, self.angle = np.zeros((3, count))  # (N,) each
        self.clock = np.zeros(count, dtype=np.int64)
        self.num_items = np.zeros(count, dtype=np.int64)
        self.item_x, self.item_y = np.full((2, count, CAPACITY), np.nan)  # (N, 30); NaN: no item
        self.item_kind, self.item_age = np.zeros((2, count, CAPACITY), dtype=np.int64)
        self.sight = self._look()

    def __len__(self) -> int:
        return len(self.x)

    def place(self, layouts: Sequence[Layout]) -> None:
        """Set all worlds, and look."""
        for world, layout in enumerate(layouts):
            self.x[world], self.y[world], self.angle[world] = layout.pose
            self.clock[world] = layout.clock
            self._clear(world, 0)
            for item in layout.items:
                self._append(world, item)
        self.sight = self._look()

    def tick(self, actions: Ints, sources: Sequence[Uniforms]) -> Floats:  # (N,)
        """Act; what it earned. Rewards count what the eyes saw before the move.

        Args:
            actions: `(N,)`, 0 to 4.
            sources: Of random numbers, one for each world.
        """
        self.clock += 1
        self._move(actions)
        self.item_age += self.num_items[:, None] > _SLOTS
        eaten, meals = self._eat()
        gone = self._spoil(eaten, sources)
        for world in np.flatnonzero(gone.any(1)).tolist():
            self._remove(world, gone[world])
        missing = (self.clock % _NEW_EVERY == 0) & (self.num_items < CAPACITY)
        for world in np.flatnonzero(missing).tolist():
            if sources[world].random() < _NEW_SHARE:
                self._append(world, draw_item(sources[world]))
        rewards = self._earn(actions, meals)
        self.sight = self._look()
        return rewards

    def scene(self, world: int) -> Scene:
        """A copy of one world."""
        here = slice(self.num_items[world])
        columns = (self.item_x, self.item_y, self.item_kind, self.item_age)
        return Scene(
            int(self.clock[world]),
            (float(self.x[world]), float(self.y[world]), float(self.angle[world])),
            list(zip(*(column[world, here].tolist() for column in columns), strict=True)),
            self.sight.kind[world].copy(),
            self.sight.distance[world].copy(),
        )

    def _look(self) -> Sight:
        return look(self.x, self.y, self.angle, (self.item_x, self.item_y, self.item_kind))

    def _move(self, actions: Ints) -> None:
        """Turn each wheel about the other one, and go to the middle of where both then are.

        In closed form p ← p + 2.5·(cos(θ − a) − cos(θ + b), sin(θ + b) − sin(θ − a)) and
        θ ← θ − a + b for wheels that turn by a and b. A forager whose way a wall crosses stays
        where it is, and turns.
        """
        first, second = WHEELS[actions].T
        (cos_a, cos_b), (sin_a, sin_b) = _COS[actions].T, _SIN[actions].T
        axle = self.angle + math.pi / 2
        axle_x, axle_y = RADIUS / 2 * np.sin(axle), RADIUS / 2 * np.cos(axle)
        one_x, one_y = self.x + axle_x, self.y + axle_y
        two_x, two_y = self.x - axle_x, self.y - axle_y
        arm_x, arm_y = self.x - two_x, self.y - two_y
        by_one_x = two_x + (arm_x * cos_a + arm_y * -sin_a)
        by_one_y = two_y + (-arm_x * -sin_a + arm_y * cos_a)
        arm_x, arm_y = self.x - one_x, self.y - one_y
        by_two_x = one_x + (arm_x * cos_b + arm_y * sin_b)
        by_two_y = one_y + (-arm_x * sin_b + arm_y * cos_b)
        x = by_one_x * 0.5 + by_two_x * 0.5
        y = by_one_y * 0.5 + by_two_y * 0.5

        angle = self.angle - first
        angle = np.where(angle < 0, angle + _TURN, angle) + second
        self.angle = np.where(angle > _TURN, angle - _TURN, angle)
        free = ~crosses_wall(self.x, self.y, x, y)
        self.x = np.clip(np.where(free, x, self.x), 0, WIDTH)
        self.y = np.clip(np.where(free, y, self.y), 0, HEIGHT)

    def _eat(self) -> tuple[Bools, Floats]:
        """Which items are eaten, `(N, 30)`, and what they are worth, `(N,)`."""
        eaten = np.zeros(self.item_x.shape, dtype=np.bool_)
        meals = np.zeros(len(self))
        gap_x, gap_y = self.x[:, None] - self.item_x, self.y[:, None] - self.item_y
        world, slot = np.nonzero(np.sqrt(gap_x * gap_x + gap_y * gap_y) < 2 * RADIUS)
        if len(world):
            item_x, item_y = self.item_x[world, slot], self.item_y[world, slot]
            open_way = ~crosses_wall(self.x[world], self.y[world], item_x, item_y)
            world, slot = world[open_way], slot[open_way]
            eaten[world, slot] = True
            np.add.at(meals, world, _WORTH[self.item_kind[world, slot]])
        return eaten, meals

    def _spoil(self, eaten: Bools, sources: Sequence[Uniforms]) -> Bools:
        """Which items are eaten or, every 100 ticks, too old by chance: a draw for each old one."""
        due = self.clock % _OLD_EVERY == 0
        if due.any():
            for world, slot in np.argwhere(due[:, None] & (self.item_age > _OLD)).tolist():
                if sources[world].random() < _OLD_SHARE:
                    eaten[world, slot] = True
        return eaten

    def _earn(self, actions: Ints, meals: Floats) -> Floats:
        share = np.where(self.sight.kind == WALL, self.sight.distance / RANGE, 1.0)  # (N, 9)
        clear = np.cumsum(share, 1)[:, -1] / EYES  # eye by eye, for the same bits at any N
        if self.reward == "karpathy":
            clear = np.minimum(1.0, clear * 2)
        forward = np.where((actions == FORWARD) & (clear > 0.75), 0.1 * clear, 0.0)
        return clear + forward + meals

    def _append(self, world: int, item: Item) -> None:
        slot = self.num_items[world]
        self.item_x[world, slot], self.item_y[world, slot] = item[:2]
        self.item_kind[world, slot], self.item_age[world, slot] = item[2:]
        self.num_items[world] += 1

    def _remove(self, world: int, gone: Bools) -> None:
        """Later items move up."""
        kept = np.flatnonzero(~gone & (self.num_items[world] > _SLOTS))
        for column in (self.item_x, self.item_y, self.item_kind, self.item_age):
            column[world, : len(kept)] = column[world, kept]
        self._clear(world, len(kept))

    def _clear(self, world: int, first: int) -> None:
        """Take away all items from this one on."""
        self.item_x[world, first:] = self.item_y[world, first:] = np.nan
        self.item_kind[world, first:] = self.item_age[world, first:] = 0
        self.num_items[world] = first
