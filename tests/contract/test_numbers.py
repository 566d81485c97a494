"""The numbers of a draw are a function of seed, site, draw and shape, however asked for."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from dubio.native import philox, stream
from dubio.noise.numbers import Numbers

SIZES = [0, 1, 3, 32, 33, 64, 129, 1024, 1025, 3000]
DRAWS = 37
KINDS: dict[str, Callable[[Numbers, torch.Size, Tensor], Tensor]] = {
    "bernoulli": lambda numbers, shape, like: numbers.bernoulli((2,), 0.3, shape, like),
    "uniform": lambda numbers, shape, like: numbers.uniform((2, 1), shape, like),
    "normal": lambda numbers, shape, like: numbers.normal((2, 1), shape, like),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_any_part_of_the_draws_has_the_same_bits(kind: str, size: int) -> None:
    draw, shape, like = KINDS[kind], torch.Size([size]), torch.empty(0)
    numbers = Numbers(5, range(DRAWS), shared=False)
    everything = draw(numbers, shape, like)
    assert everything.shape == (DRAWS, size)
    for start, stop in [(0, 1), (0, 5), (36, 37), (3, 20), (17, 37)]:
        part = draw(numbers.part(start, stop), shape, like)
        assert torch.equal(part, everything[start:stop])
    if size > 8:
        assert len(torch.unique(everything, dim=0)) == DRAWS


@pytest.mark.parametrize("kind", KINDS)
def test_sites_and_seeds_have_numbers_of_their_own(kind: str) -> None:
    shape, like = torch.Size([4, 16]), torch.empty(0)
    first, second = (KINDS[kind](Numbers(s, range(9), shared=False), shape, like) for s in (1, 2))
    assert not torch.equal(first, second)
    one, other = (Numbers(1, range(9), shared=False).uniform((s,), shape, like) for s in (0, 1))
    assert not torch.equal(one, other)


def test_few_numbers_cost_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch makes a tile at least, and no more than a tile too many, all draws at once."""
    monkeypatch.setattr(stream, "LOADED", None)
    made: list[int] = []
    tiles = philox.tiles

    def counting(*arguments: Any) -> Tensor:
        words = tiles(*arguments)
        made.append(2 * words.numel())
        return words

    monkeypatch.setattr(philox, "tiles", counting)
    for draws, size in ((1, 3), (20, 32), (2, 1000)):
        made.clear()
        numbers = Numbers(0, range(7, 7 + draws), shared=False)
        numbers.normal((0,), torch.Size([size]), torch.empty(0))
        assert len(made) == 1
        assert made[0] < draws * (size + philox.WORDS)
