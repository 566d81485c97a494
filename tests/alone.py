"""Networks for populations, and the loop that trains one of them alone."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

import dubio
from dubio.noise.noise import noise_from
from dubio.population.given import Continuous, NoisePlace, Origin
from dubio.population.streams import MemberStream
from mask_cases import MASKS
from prior_cases import PRIORS

N, BATCH, MEMBERS = 60, 16, 3


def _masked(mask: Callable[..., dubio.masks.Mask]) -> Callable[[int], nn.Module]:
    def build(m: int) -> nn.Module:
        drop, scale = 0.05 + 0.1 * m, 0.01 + 0.1 * m
        return nn.Sequential(
            dubio.Masked(nn.Linear(4, 8), mask(drop=drop), length_scale=scale),
            nn.ReLU(),
            dubio.Masked(nn.Linear(8, 1), mask(drop=drop), length_scale=2 * scale),
        )

    return build


def _bayes(
    prior: Callable[[float], dubio.priors.Prior], sampler: str
) -> Callable[[int], nn.Module]:
    def build(m: int) -> nn.Module:
        layer = {"prior": prior(0.5 + m), "sampler": sampler, "deviation": 0.02 + 0.01 * m}
        return nn.Sequential(
            dubio.BayesLinear(4, 8, **layer), nn.ReLU(), dubio.BayesLinear(8, 1, **layer)
        )

    return build


def _tied(m: int) -> nn.Module:
    mask = dubio.masks.Concrete(drop=0.1 + 0.1 * m)
    return nn.Sequential(
        dubio.Masked(nn.Linear(4, 8), mask), nn.Tanh(), dubio.Masked(nn.Linear(8, 1), mask.tied())
    )


def _drop_connect(m: int) -> nn.Module:
    mask = dubio.masks.LearnableBernoulli(drop=0.1 + 0.1 * m)
    return nn.Sequential(dubio.DropConnect(nn.Linear(4, 8), mask), nn.ReLU(), nn.Linear(8, 1))


NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "plain": lambda m: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)),
    "dropout": lambda m: nn.Sequential(
        nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1 + 0.1 * m), nn.Linear(8, 1)
    ),
    **{name: _masked(case) for name, case in MASKS.items()},
    "temperatures": _masked(lambda drop: dubio.masks.Concrete(drop=drop, temperature=0.1 + drop)),
    "tied": _tied,
    "drop connect": _drop_connect,
    **{f"bayes {name}": _bayes(prior, "weights") for name, prior in PRIORS.items()},
    "bayes swapped": _bayes(lambda scale: dubio.priors.ScaleMixture(0.5, scale, 1.5), "weights"),
    "bayes local": _bayes(lambda scale: dubio.priors.Gaussian(1.0), "local"),
    "bayes flipout": _bayes(lambda scale: dubio.priors.Gaussian(1.0), "flipout"),
}


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(N, 4, generator=generator)
    y = x[:, :1].sin() + 0.1 * torch.randn(N, 1, generator=generator)
    return x, y


def objectives(kind: str, *, rows: Sequence[int] = (N,) * MEMBERS) -> list[nn.Module]:
    torch.manual_seed(3)
    return [
        dubio.ELBO(
            NETWORKS[kind](m),
            dubio.likelihoods.Gaussian(1.0 + 3 * m),
            rows[m],
            kl_weight=0.5 + 0.2 * m,
        )
        for m in range(MEMBERS)
    ]


class FromStream:
    """Noise of one network, drawn pass by pass from its stream."""

    def __init__(self, stream: MemberStream) -> None:
        self._stream = stream

    def a_pass(self) -> Origin:
        seen: dict[NoisePlace, Tensor] = {}

        def source(
            place: NoisePlace, distribution: Continuous, shape: torch.Size, like: Tensor
        ) -> Tensor:
            if place not in seen:
                seen[place] = torch.empty(shape, dtype=torch.float64)
                self._stream.fill(distribution, seen[place])
            return seen[place]

        return Origin(source)


def train_alone(
    objective: nn.Module, seed: int, rows: np.ndarray, learning_rate: float, steps: int
) -> list[float]:
    """A loop as anyone would write it, with the data order and the noise of a seed: its losses."""
    x, y = data()
    stream = MemberStream(seed, 0, 0)
    noise = FromStream(stream)
    adam = torch.optim.Adam(objective.parameters(), lr=learning_rate)
    losses = []
    for _ in range(steps):
        batch = stream.rows(BATCH, rows)
        with noise_from(noise.a_pass()):
            loss = objective(x[batch], y[batch])
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses


def assert_same(one: nn.Module, other: nn.Module) -> None:
    for name, tensor in one.state_dict().items():
        if isinstance(tensor, Tensor) and not name.endswith("_extra_state"):
            torch.testing.assert_close(
                other.state_dict()[name], tensor, rtol=1e-7, atol=1e-9, msg=lambda m, n=name: n + m
            )
