"""Pictures of a forager's world: pixels, characters and SVG."""

import math

import numpy as np
from numpy.typing import NDArray

from dubio_studies.worlds.forager_layout import (
    APPLE,
    HEIGHT,
    NOTHING,
    POISON,
    RADIUS,
    WALL,
    WALLS,
    WIDTH,
)
from dubio_studies.worlds.forager_sight import ANGLES
from dubio_studies.worlds.forager_world import Scene

Colour = tuple[int, int, int]
Line = tuple[float, float, float, float]
Pixels = NDArray[np.uint8]

_BACKGROUND, _INK, _BODY = (255, 255, 255), (40, 40, 40), (90, 130, 200)
_COLOURS = {
    NOTHING: (200, 200, 200),
    WALL: _INK,
    APPLE: (214, 69, 65),
    POISON: (60, 150, 80),
}
_LETTERS = {APPLE: "a", POISON: "p"}
_ARROWS = "↓↘→↗↑↖←↙"  # by eighths of a turn from θ = 0, which looks down
_CELL_WIDTH, _CELL_HEIGHT = 10, 20


def as_pixels(scene: Scene) -> Pixels:  # (500, 700, 3)
    """Walls, rays of the eyes as far as they see, items and the forager."""
    pixels = np.full((int(HEIGHT), int(WIDTH), 3), _BACKGROUND, dtype=np.uint8)
    for kind, line in _rays(scene):
        _draw_line(pixels, line, _COLOURS[kind])
    for line in WALLS.tolist():
        _draw_line(pixels, line, _INK)
    for x, y, kind, _ in scene.items:
        _draw_disc(pixels, x, y, _COLOURS[kind])
    _draw_disc(pixels, *scene.pose[:2], _BODY)
    return pixels


def as_text(scene: Scene) -> str:
    """70 × 25 characters: `#` walls, `a` apples, `p` poison, an arrow for the forager."""
    rows = [[" "] * int(WIDTH / _CELL_WIDTH) for _ in range(int(HEIGHT / _CELL_HEIGHT))]

    def put(x: float, y: float, letter: str) -> None:
        row, column = min(int(y / _CELL_HEIGHT), len(rows) - 1), int(x / _CELL_WIDTH)
        rows[row][min(column, len(rows[0]) - 1)] = letter

    for line in WALLS.tolist():
        for x, y in _points(line):
            put(x, y, "#")
    for x, y, kind, _ in scene.items:
        put(x, y, _LETTERS[kind])
    x, y, angle = scene.pose
    put(x, y, _ARROWS[round(angle / (math.pi / 4)) % 8])
    return "\n".join("".join(row).rstrip() for row in rows) + "\n"


def as_svg(scene: Scene) -> str:
    """The same as the pixels, as a document that a page can hold."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {HEIGHT:g}"'
        f' role="img" aria-label="A forager among apples and poison, tick {scene.clock}">',
        f'<rect width="{WIDTH:g}" height="{HEIGHT:g}" fill="{_css(_BACKGROUND)}"/>',
    ]
    parts += [_svg_line(line, _COLOURS[kind], 1) for kind, line in _rays(scene)]
    parts += [_svg_line(line, _INK, 2) for line in WALLS.tolist()]
    parts += [_svg_disc(x, y, _COLOURS[kind]) for x, y, kind, _ in scene.items]
    parts += [_svg_disc(*scene.pose[:2], _BODY), "</svg>"]
    return "\n".join(parts)


def _rays(scene: Scene) -> list[tuple[int, Line]]:
    """What each eye sees, and a line of that length."""
    x, y, angle = scene.pose
    ends_x = x + scene.eye_distance * np.sin(angle + ANGLES)
    ends_y = y + scene.eye_distance * np.cos(angle + ANGLES)
    return [
        (kind, (x, y, to_x, to_y))
        for kind, to_x, to_y in zip(
            scene.eye_kind.tolist(), ends_x.tolist(), ends_y.tolist(), strict=True
        )
    ]


def _points(line: Line) -> NDArray[np.float64]:  # (P, 2)
    """Points on a line, at most half a pixel apart."""
    x, y, to_x, to_y = line
    steps = 2 * math.ceil(max(abs(to_x - x), abs(to_y - y))) + 1
    return np.linspace((x, y), (to_x, to_y), steps)


def _draw_line(pixels: Pixels, line: Line, colour: Colour) -> None:
    column, row = _points(line).round().astype(int).T
    inside = (row >= 0) & (row < pixels.shape[0]) & (column >= 0) & (column < pixels.shape[1])
    pixels[row[inside], column[inside]] = colour


def _draw_disc(pixels: Pixels, x: float, y: float, colour: Colour) -> None:
    left, top = max(int(x - RADIUS), 0), max(int(y - RADIUS), 0)
    box = pixels[top : int(y + RADIUS) + 2, left : int(x + RADIUS) + 2]
    rows, columns = np.ogrid[top : top + box.shape[0], left : left + box.shape[1]]
    box[(columns - x) ** 2 + (rows - y) ** 2 <= RADIUS**2] = colour


def _svg_line(line: Line, colour: Colour, width: int) -> str:
    x, y, to_x, to_y = line
    return (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
        f' stroke="{_css(colour)}" stroke-width="{width}"/>'
    )


def _svg_disc(x: float, y: float, colour: Colour) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS:g}" fill="{_css(colour)}"/>'


def _css(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
