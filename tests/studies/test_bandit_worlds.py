"""The bandits: known expectations, and the same luck for everyone."""

import math

import pytest
import torch

from dubio.data import mushroom
from dubio.data.inventory import DATASETS
from dubio_studies.worlds.bandits import EAT, Mushrooms, Wheel

needs_mushrooms = pytest.mark.skipif(
    DATASETS["mushroom"].here() is None, reason="the mushrooms are not here"
)


@needs_mushrooms
def test_mushrooms_have_the_expected_regrets() -> None:
    # facts of the data: 4208 edible and 3916 poisonous of 8124
    world = Mushrooms.drawn(200_000, seed=1)
    abstain, eat = world.regrets.mean(0).tolist()
    assert abstain == pytest.approx(5 * 4208 / 8124, abs=0.05)  # 9 standard errors
    assert eat == pytest.approx(15 * 3916 / 8124, abs=0.15)  # 9 standard errors
    everywhere = slice(0, len(world))
    eaten = world.rewards(everywhere, torch.full((len(world),), EAT))
    assert set(eaten.tolist()) == {5.0, -35.0}
    assert eaten.double().mean().item() == pytest.approx(world.means[:, EAT].mean().item(), abs=0.3)
    assert (world.rewards(everywhere, torch.zeros(len(world), dtype=torch.long)) == 0).all()


@needs_mushrooms
def test_mushrooms_have_the_columns_of_the_papers() -> None:
    assert Mushrooms.drawn(3, seed=0).contexts.shape == (3, 117)
    reduced = Mushrooms.drawn(3, seed=0, drop_first=True)
    assert reduced.contexts.shape == (3, 95)
    assert (reduced.contexts.sum(1) <= 22).all()


@needs_mushrooms
def test_the_first_column_of_each_feature_is_what_is_dropped() -> None:
    full, reduced = (Mushrooms.drawn(500, seed=3, drop_first=drop) for drop in (False, True))
    assert (full.contexts.sum(1) == 22).all()
    sizes = [len(names) for names in mushroom().categories]
    kept = torch.cat([feature[:, 1:] for feature in full.contexts.split(sizes, 1)], 1)
    assert torch.equal(reduced.contexts, kept)


@pytest.mark.parametrize("delta", [0.5, 0.95])
def test_the_wheel_pays_outside_of_the_radius(delta: float) -> None:
    world = Wheel.drawn(100_000, delta, seed=2)
    radius = world.contexts.double().norm(dim=1)
    outside = (world.means.amax(1) == 50).double().mean().item()
    assert outside == pytest.approx(1 - delta**2, abs=0.01)  # above 6 standard errors
    inside = world.means[radius < delta - 1e-6]
    assert (inside == torch.tensor([1.2, 1, 1, 1, 1], dtype=torch.float64)).all()
    corners = torch.tensor([[0.7, 0.7], [0.7, -0.7], [-0.7, 0.7], [-0.7, -0.7]])
    for action, corner in enumerate(corners, start=1):
        here = (world.contexts * corner > 0).all(1) & (radius > delta + 1e-6)
        assert (world.means[here].argmax(1) == action).all()


def test_agents_have_the_same_luck() -> None:
    world = Wheel.drawn(50, 0.9, seed=4)
    actions = torch.arange(50) % 5
    both = world.rewards(slice(0, 50), torch.stack([actions, actions]))
    assert both.shape == (2, 50)
    assert torch.equal(both[0], both[1])
    expected = world.means.gather(1, actions[:, None]).squeeze(1)
    assert (both[0] - expected).abs().max() < 0.01 * math.sqrt(2 * math.log(50)) * 3


def test_a_radius_must_lie_on_the_disc() -> None:
    with pytest.raises(ValueError, match="expected a number between 0 and 1"):
        Wheel.drawn(3, 1.5, seed=0)
