"""The forager's world: the original's values, rays cast by hand, pictures, misuse.

`golden/forager.json` was recorded from the original JavaScript (ConvNetJS, `rldemo.js`).
"""

import json
import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import dubio_studies.worlds  # noqa: F401  registers the worlds
from dubio_studies.worlds.forager_layout import WALLS
from dubio_studies.worlds.forager_sight import FARTHEST, crosses_wall, look
from dubio_studies.worlds.forager_world import Worlds

gymnasium = pytest.importorskip("gymnasium")

GOLDEN = json.loads((Path(__file__).parent / "golden" / "forager.json").read_text())
NEAR = {"rtol": 1e-12, "atol": 1e-12}
CASES = [
    pytest.param(group, case, id=f"{group}-{index}")
    for group in ("sense", "move", "eat", "item_sensor", "respawn_and_age")
    for index, case in enumerate(GOLDEN[group]["cases"])
]


class Minstd:
    """The random numbers of the golden values."""

    def __init__(self, seed: int) -> None:
        self.state, self.drawn = seed, 0

    def random(self) -> float:
        self.state, self.drawn = 16807 * self.state % 2147483647, self.drawn + 1
        return self.state / 2147483647


def world(seed: int = 1, reward: str = "karpathy") -> Any:
    """As the original after its construction, which draws 90 numbers."""
    env = gymnasium.make("dubio/Forager-v0", reward=reward).unwrapped
    env.np_random = Minstd(seed)
    env.reset()
    return env


def options(group: str, case: dict[str, Any]) -> dict[str, Any]:
    items = {"sense": GOLDEN["reset_seed_1"]["items"], "move": []}
    return {
        "items": items[group] if group in items else case["items_before"],
        "pose": case.get("pose_before", (350, 250, 0)),
        "clock": case.get("clock_before", 0),
    }


def agree(before: dict[str, Any], reward: float, info: dict[str, Any], after: Any) -> None:
    assert info["clock"] == after["clock"]
    assert len(info["items"]) == after["num_items"]
    assert before["eye_kind"].tolist() == after["eye_type"]
    np.testing.assert_allclose(before["eye_distance"], after["eye_proximity"], **NEAR)
    np.testing.assert_allclose(info["pose"], after["pose"], **NEAR)
    np.testing.assert_allclose(reward, after["reward"], **NEAR)
    if "items" in after:
        np.testing.assert_allclose(
            np.reshape(info["items"], (-1, 4)), np.reshape(after["items"], (-1, 4)), **NEAR
        )
        assert [item[2:] for item in info["items"]] == [tuple(i[2:]) for i in after["items"]]


@pytest.mark.parametrize(("group", "case"), CASES)
def test_one_tick_is_that_of_the_original(group: str, case: dict[str, Any]) -> None:
    env = world(case.get("seed", 1))
    observation, before = env.reset(options=options(group, case))
    sight = env._worlds.sight.numbers()[0]
    _, reward, *_, info = env.step(case["action"])
    after = case["after"]
    agree(before, reward, info, after)
    assert env.np_random.drawn == after["uniforms_drawn"]
    np.testing.assert_allclose(sight, after["observation"], **NEAR)
    np.testing.assert_array_equal(observation, sight.astype(np.float32))


@pytest.mark.parametrize(("group", "case"), CASES)
def test_gals_reward_neither_doubles_nor_caps_the_open_view(
    group: str, case: dict[str, Any]
) -> None:
    env = world(case.get("seed", 1), "gal")
    env.reset(options=options(group, case))
    _, reward, *_ = env.step(case["action"])
    after, forward = case["after"], case["action"] == 0
    view = after["mean_proximity"]
    capped = min(1.0, 2 * view)
    meals = after["reward"] - capped * (1.1 if forward and capped > 0.75 else 1.0)
    assert reward == pytest.approx(
        view * (1.1 if forward and view > 0.75 else 1.0) + meals, rel=1e-12, abs=1e-12
    )


def test_a_thousand_ticks_are_those_of_the_original() -> None:
    env = gymnasium.make("dubio/Forager-v0", reward="karpathy").unwrapped
    env.np_random = Minstd(1)
    _, info = env.reset()
    assert info["items"] == [tuple(item) for item in GOLDEN["reset_seed_1"]["items"]]
    records = {record["clock"]: record for record in GOLDEN["rollout"]["records"]}
    total = 0.0
    for action in GOLDEN["rollout"]["actions"]:
        before = info
        _, reward, *_, info = env.step(int(action))
        total += reward
        record = records.pop(info["clock"], None)
        if record is not None:
            agree(before, reward, info, record)
            assert env.np_random.drawn == record["uniforms_drawn"]
            np.testing.assert_allclose(total, record["cumulative_reward"], **NEAR)
    assert not records


def test_the_walls_are_those_of_the_original() -> None:
    assert WALLS.tolist() == GOLDEN["world"]["walls"]


def cast(x: float, y: float, direction: float, items: list[Any]) -> tuple[int, float]:
    """One ray, thing by thing: kind and distance of the nearest."""
    ux, uy = math.sin(direction), math.cos(direction)
    nearest, kind, distance = 1.0, -1, 85.0
    for x1, y1, x2, y2 in WALLS:
        if x1 == x2 and ux:  # upright
            far, across, low, high = (x1 - x) / ux, y + (x1 - x) / ux * uy, *sorted((y1, y2))
        elif y1 == y2 and uy:
            far, across, low, high = (y1 - y) / uy, x + (y1 - y) / uy * ux, *sorted((x1, x2))
        else:
            continue
        if 0 < far / 85 < nearest and low < across < high:
            nearest, kind, distance = far / 85, 0, far
    for item_x, item_y, item_kind, _ in items:
        forward = (item_x - x) * ux + (item_y - y) * uy
        side = (item_x - x) * uy - (item_y - y) * ux  # along the normal (uy, −ux)
        if abs(side) > 10:
            continue
        side += abs(side)  # the original's side error
        spot = (forward * ux + side * uy, forward * uy - side * ux)
        depth = spot[0] / ux if abs(ux) > abs(uy) else spot[1] / uy
        if 0 < depth / 85 < nearest:
            nearest, kind, distance = depth / 85, item_kind, math.hypot(*spot)
    return kind, distance


def test_eyes_see_what_rays_by_hand_meet() -> None:
    rng = np.random.default_rng(5)
    count = 300
    x, y, angle = rng.uniform((0, 0, 0), (700, 500, 6.28), (count, 3)).T.copy()
    item_x, item_y = rng.uniform(0, 700, (count, 30)), rng.uniform(0, 500, (count, 30))
    item_kind = rng.integers(1, 3, (count, 30))
    item_x[:, 25:] = item_y[:, 25:] = np.nan
    sight = look(x, y, angle, (item_x, item_y, item_kind))
    for index in range(count):
        items = list(zip(item_x[index], item_y[index], item_kind[index], [0] * 25, strict=False))
        for eye in range(9):
            direction = angle[index] + (eye - 3) * 0.25
            kind, distance = cast(x[index], y[index], direction, items)
            assert sight.kind[index, eye] == kind, (index, eye)
            assert sight.distance[index, eye] == pytest.approx(distance, rel=1e-9)
    assert sight.numbers().max() <= FARTHEST
    assert {-1, 0, 1, 2} == set(sight.kind.ravel().tolist())


def test_of_equally_near_things_the_first_is_seen() -> None:
    one = np.array([50.0]), np.array([50.0]), np.array([0.0])
    twins = np.array([[50.0, 50.0]]), np.array([[80.0, 80.0]])
    assert look(*one, (*twins, np.array([[1, 2]]))).kind[0, 3] == 1
    assert look(*one, (*twins, np.array([[2, 1]]))).kind[0, 3] == 2
    at_the_wall = np.array([350.0]), np.array([400.0]), np.array([0.0])
    behind = np.array([[350.0]]), np.array([[490.0]]), np.array([[1]])  # on the wall, as deep
    assert look(*at_the_wall, behind).kind[0, 3] == -1  # 90 away: neither is in range
    nearer = np.array([350.0]), np.array([420.0]), np.array([0.0])
    assert look(*nearer, behind).kind[0, 3] == 0


def test_a_wall_that_is_only_touched_is_not_crossed() -> None:
    x, y, to_x, to_y = np.array(
        [
            (350, 250, 350, 490),  # ends on a wall
            (350, 490, 350, 480),  # starts on it
            (300, 90, 300, 110),  # along a wall, through its end
            (290, 90, 310, 110),  # through the corner of two walls
            (350, 250, 350, 491),
            (350, 491, 350, 480),
            (289, 90, 309, 110),
        ],
        dtype=float,
    ).T
    assert crosses_wall(x, y, to_x, to_y).tolist() == [False] * 4 + [True] * 3


def test_moves_follow_the_closed_form() -> None:
    env = world()
    rng = np.random.default_rng(0)
    for action, (first, second) in enumerate(GOLDEN["world"]["actions"]):
        angle = rng.uniform(0, 2 * math.pi)
        env.reset(options={"items": [], "pose": (350, 250, angle)})
        *_, info = env.step(action)
        x = 350 + 2.5 * (math.cos(angle - first) - math.cos(angle + second))
        y = 250 + 2.5 * (math.sin(angle + second) - math.sin(angle - first))
        turned = (angle - first + second) % (2 * math.pi)
        np.testing.assert_allclose(info["pose"], (x, y, turned), rtol=1e-12)


def test_gymnasium_accepts_it() -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(gymnasium.make("dubio/Forager-v0").unwrapped)
    env = gymnasium.make("dubio/Forager-v0", max_episode_steps=3)
    env.reset(seed=0)
    assert [env.step(0)[2:4] for _ in range(3)] == [(False, False)] * 2 + [(False, True)]


def test_the_seed_of_an_unseeded_world_is_told() -> None:
    env, again = (gymnasium.make("dubio/Forager-v0").unwrapped for _ in range(2))
    first, _ = env.reset()
    repeated, _ = again.reset(seed=env.np_random_seed)
    np.testing.assert_array_equal(first, repeated)
    state = np.random.get_state()[1].tolist()
    assert env.reset()[1]["items"] == again.reset()[1]["items"]
    assert np.random.get_state()[1].tolist() == state


def test_what_is_returned_is_a_copy() -> None:
    env, untouched = world(reward="gal"), world(reward="gal")
    for one in (env, untouched):
        seen, info = one.reset(options={"items": [(50, 90, 1, 0)]})
        if one is env:
            seen[:], info["eye_kind"][:], info["eye_distance"][:] = 0, 0, 0
            info["items"].clear()
    ours, theirs = env.step(0), untouched.step(0)
    assert ours[1] == theirs[1]
    assert ours[4]["items"] == theirs[4]["items"]


def test_a_pickled_world_goes_on() -> None:
    env = gymnasium.make("dubio/Forager-v0").unwrapped
    env.reset(seed=2)
    again = pickle.loads(pickle.dumps(env))
    for _ in range(60):
        ours, theirs = env.step(0), again.step(0)
        np.testing.assert_array_equal(ours[0], theirs[0])
        assert ours[4]["items"] == theirs[4]["items"]


def drawn(mode: str) -> Any:
    env = gymnasium.make("dubio/Forager-v0", render_mode=mode)
    items = [(205, 250, 1, 0), (505, 250, 2, 7)]
    _, before = env.reset(seed=0, options={"items": items, "pose": (350, 250, math.pi / 2)})
    picture = env.render()
    assert env.unwrapped._worlds.scene(0).items == before["items"]
    return picture


def test_pixels_show_walls_items_and_the_forager() -> None:
    pixels = drawn("rgb_array")
    assert pixels.shape == (500, 700, 3)
    assert pixels.dtype == np.uint8
    apple, poison, body, floor = (pixels[250, x].tolist() for x in (205, 505, 350, 150))
    assert apple[0] > apple[1]
    assert poison[1] > poison[0]
    assert body[2] > body[0]
    assert floor == [255, 255, 255]
    assert (pixels[[100, 250, 10], [200, 300, 400]].max(1) < 100).all()  # on three walls
    assert pixels[250, 400].tolist() != floor  # a ray
    assert (pixels[250, [196, 214]] == apple).all()
    assert (pixels[250, [193, 217]] == 255).all()


def test_characters_show_the_same() -> None:
    rows = drawn("ansi").splitlines()
    assert len(rows) == 25
    assert [rows[12][x // 10] for x in (205, 350, 505, 300, 150)] == ["a", "→", "p", "#", " "]


def test_svg_is_a_document() -> None:
    tree = ElementTree.fromstring(drawn("svg"))
    names = [element.tag.split("}")[1] for element in tree]
    assert [names.count(name) for name in ("line", "circle", "rect")] == [19, 3, 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pose": (1, 2)}, r"pose: expected \(x, y, angle\), got 2"),
        ({"pose": (1, 2, 7)}, "angle: expected 0 to 6.28319, got 7"),
        ({"pose": (-1, 2, 3)}, "pose, x: expected 0 to 700"),
        ({"pose": (1, math.nan, 3)}, "pose, y: expected 0 to 500, got nan"),
        ({"pose": ("1", 2, 3)}, "pose, x: expected a number"),
        ({"pose": 5}, "pose: expected"),
        ({"clock": -1}, "clock: expected 0 or more"),
        ({"clock": 1.5}, "clock: expected a whole number"),
        ({"clock": math.inf}, "clock: expected a whole number"),
        ({"items": [(1, 2, 3)]}, r"items\[0\]: expected \(x, y, type, age\)"),
        ({"items": [(1, 2, 1, 0), (1, 2, 3, 0)]}, r"items\[1\]: expected type 1 \(apple\) or 2"),
        ({"items": [(1, 2, 1, -1)]}, r"items\[0\], age: expected 0 or more"),
        ({"items": [(1, 2, 1, 0)] * 31}, "items: expected at most 30, got 31"),
        ({"items": "apple"}, "items: expected a list"),
        ({"positions": []}, "options: expected items, pose and clock, got positions"),
        ([], "options: expected a dict"),
    ],
)
def test_options_of_wrong_form_are_refused(given: Any, message: str) -> None:
    env = gymnasium.make("dubio/Forager-v0").unwrapped
    _, before = env.reset(seed=0)
    with pytest.raises((TypeError, ValueError), match=message):
        env.reset(options=given)
    assert env._worlds.scene(0).items == before["items"]


def test_options_may_be_arrays() -> None:
    env = gymnasium.make("dubio/Forager-v0").unwrapped
    given = {"items": np.array([[60.0, 70, 2, 9]]), "pose": np.array([40, 60.0, 1]), "clock": 9.0}
    _, info = env.reset(seed=0, options=given)
    assert (info["items"], info["pose"], info["clock"]) == ([(60, 70, 2, 9)], (40, 60, 1), 9)


@pytest.mark.parametrize("action", [1.0, True, "1", None, [1], np.array([1])])
def test_actions_of_the_wrong_type_are_refused(action: Any) -> None:
    env = world()
    with pytest.raises(TypeError, match="action: expected a whole number from 0 to 4"):
        env.step(action)


@pytest.mark.parametrize("action", [-1, 5, np.int64(9)])
def test_actions_out_of_range_are_refused(action: Any) -> None:
    with pytest.raises(ValueError, match="action: expected 0 to 4"):
        world().step(action)


def test_a_world_must_be_reset_and_drawn_as_asked() -> None:
    env = gymnasium.make("dubio/Forager-v0").unwrapped
    with pytest.raises(RuntimeError, match=r"call reset\(seed=...\) first"):
        env.step(0)
    with pytest.raises(ValueError, match="expected a render_mode, got None"):
        env.render()
    with pytest.raises(ValueError, match="expected rgb_array, ansi, svg or None, got 'png'"):
        type(env)(render_mode="png")
    with pytest.raises(RuntimeError, match="render: expected a world"):
        type(env)(render_mode="svg").render()
    with pytest.raises(ValueError, match="expected 'gal' or 'karpathy', got 'blundell'"):
        Worlds(1, "blundell")  # type: ignore[arg-type]


def test_the_studies_do_not_need_gymnasium() -> None:
    code = (
        "import sys; sys.modules['gymnasium'] = None\nimport dubio_studies.worlds.forager_pictures"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
