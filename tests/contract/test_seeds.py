"""An int in the place of a generator is the generator with that seed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio.likelihoods import Gaussian
from dubio.noise.seeds import Seed

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
NET = nn.Sequential(nn.Linear(3, 8), nn.Dropout(), nn.Linear(8, 1))


def of_noise(seed: Seed) -> Tensor:
    with dubio.Noise(generator=seed):
        return NET(X).detach()  # type: ignore[no-any-return]


CALLS: dict[str, Callable[[Any], Tensor]] = {
    "predict": lambda seed: dubio.predict(NET, X, draws=5, generator=seed).draws,
    "streamed": lambda seed: (
        dubio.predict(NET, X, draws=5, generator=seed, keep_draws=False).epistemic
    ),
    "loader": lambda seed: dubio.predict(NET, [X, X], draws=5, generator=seed).draws,
    "predictor": lambda seed: dubio.Predictor(NET, draws=5)(X, seed).draws,
    "once": lambda seed: dubio.Predictor(NET, draws=5).once(X, seed).draws,
    "noise of a predictor": lambda seed: dubio.Predictor(NET, draws=5).noise(X, seed)["1"],
    "noise": of_noise,
    "sample": lambda seed: dubio.Predictive.from_draws(Gaussian(1.0), X.expand(5, 4, 3)).sample(
        7, seed
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("seed", [0, 12, -1, 2**64 - 1, np.int64(12)], ids=repr)
def test_an_int_is_a_generator(call: Callable[[Seed], Tensor], seed: int) -> None:
    before = torch.get_rng_state()
    expected = call(torch.Generator().manual_seed(int(seed)))
    assert torch.equal(call(seed), expected)
    assert torch.equal(call(seed), expected)
    assert not torch.equal(call(77), expected)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("seed", [True, np.True_, 1.0, "0", torch.tensor(1)], ids=repr)
def test_other_types_are_refused(call: Callable[[Any], Tensor], seed: Any) -> None:
    with pytest.raises(TypeError, match=r"generator: expected a torch.Generator, an int or None"):
        call(seed)


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_more_than_64_bits(seed: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        dubio.predict(NET, X, generator=seed)
