"""Members of a population become what they become alone."""

import copy
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio.noise import noise_from
from dubio.population.given import Distribution, Origin, Place
from dubio.population.streams import Stream

N, BATCH, STEPS = 60, 16, 12
MEMBERS = 3


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    """Twice the digits: Adam divides by the gradient's size, and so magnifies rounding."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def _masked(mask: Callable[[float], dubio.masks.Mask]) -> Callable[[int], nn.Module]:
    def build(m: int) -> nn.Module:
        drop, scale = 0.05 + 0.1 * m, 0.01 + 0.1 * m
        return nn.Sequential(
            dubio.Masked(nn.Linear(4, 8), mask(drop), length_scale=scale),
            nn.ReLU(),
            dubio.Masked(nn.Linear(8, 1), mask(drop), length_scale=2 * scale),
        )

    return build


def _bayes(prior: Callable[[int], dubio.priors.Prior], sampler: str) -> Callable[[int], nn.Module]:
    def build(m: int) -> nn.Module:
        layer = {"prior": prior(m), "sampler": sampler, "deviation": 0.02 + 0.01 * m}
        return nn.Sequential(
            dubio.BayesLinear(4, 8, **layer), nn.ReLU(), dubio.BayesLinear(8, 1, **layer)
        )

    return build


NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "plain": lambda m: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)),
    "dropout": lambda m: nn.Sequential(
        nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1 + 0.1 * m), nn.Linear(8, 1)
    ),
    "bernoulli": _masked(lambda drop: dubio.masks.Bernoulli(drop=drop)),
    "concrete": _masked(lambda drop: dubio.masks.Concrete(drop=drop, temperature=0.1 + drop)),
    "learnable": _masked(lambda drop: dubio.masks.LearnableBernoulli(drop=drop)),
    "gaussian": _masked(lambda drop: dubio.masks.Gaussian(drop=drop)),
    "variational": _masked(lambda drop: dubio.masks.Gaussian(drop=drop, learn=True)),
    "bayes": _bayes(lambda m: dubio.priors.Gaussian(0.5 + m), "weights"),
    "bayes laplace": _bayes(lambda m: dubio.priors.Laplace(0.5 + m), "weights"),
    "bayes mixture": _bayes(lambda m: dubio.priors.ScaleMixture(0.5, 0.1 + m, 1.5), "weights"),
    "bayes local": _bayes(lambda m: dubio.priors.Gaussian(1.0), "local"),
    "bayes flipout": _bayes(lambda m: dubio.priors.Gaussian(1.0), "flipout"),
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

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def a_pass(self) -> Origin:
        seen: dict[Place, Tensor] = {}

        def source(
            place: Place, distribution: Distribution, shape: torch.Size, like: Tensor
        ) -> Tensor:
            if place not in seen:
                numbers = np.empty(shape.numel(), dtype=np.float64)
                self._stream.fill(distribution, numbers)
                seen[place] = torch.from_numpy(numbers).view(shape)
            return seen[place]

        return Origin(source)


def train_alone(
    objective: nn.Module, seed: int, rows: np.ndarray, learning_rate: float, steps: int = STEPS
) -> None:
    """A loop as anyone would write it, with the data order and the noise of a seed."""
    x, y = data()
    stream = Stream(seed, 0, 0)
    noise = FromStream(stream)
    adam = torch.optim.Adam(objective.parameters(), lr=learning_rate)
    for _ in range(steps):
        batch = stream.rows(BATCH, rows)
        with noise_from(noise.a_pass()):
            loss = objective(x[batch], y[batch])
        adam.zero_grad()
        loss.backward()
        adam.step()


def assert_same(one: nn.Module, other: nn.Module) -> None:
    for name, tensor in one.state_dict().items():
        if isinstance(tensor, Tensor):
            torch.testing.assert_close(
                other.state_dict()[name], tensor, rtol=1e-7, atol=1e-9, msg=lambda m, n=name: n + m
            )


@pytest.mark.parametrize("kind", NETWORKS)
def test_members_equal_networks_trained_one_by_one(kind: str) -> None:
    x, y = data()
    members = objectives(kind)
    alone = copy.deepcopy(members)
    before = copy.deepcopy(members)
    rates = [1e-3 * (m + 1) for m in range(MEMBERS)]
    seeds = list(range(10, 10 + MEMBERS))
    outcome = dubio.Population(members, seeds).fit(
        x, y, steps=STEPS, batch_size=BATCH, learning_rate=rates
    )
    assert outcome.steps.tolist() == [STEPS] * MEMBERS
    for m, (member, twin) in enumerate(zip(members, alone, strict=True)):
        train_alone(twin, seeds[m], np.arange(N), rates[m])
        assert_same(twin, member)
        assert member.step == twin.step == STEPS
        start = dict(before[m].named_parameters())
        assert all(not torch.equal(p, start[name]) for name, p in member.named_parameters())


def test_members_have_rows_of_their_own_in_any_number() -> None:
    x, y = data()
    rows = [torch.arange(m, N, m + 1) for m in range(MEMBERS)]
    members = objectives("bernoulli", rows=[len(r) for r in rows])
    alone = copy.deepcopy(members)
    outcome = dubio.Population(members, range(MEMBERS)).fit(
        x, y, rows=rows, epochs=4, batch_size=BATCH, learning_rate=1e-2
    )
    for m, twin in enumerate(alone):
        steps = -(-4 * len(rows[m]) // BATCH)
        assert outcome.steps[m] == steps
        train_alone(twin, m, rows[m].numpy(), 1e-2, steps)
        assert_same(twin, members[m])


def test_mc_dropout_by_hand() -> None:
    """The formulas written out, with masks 1[u < keep]/keep and the KL of paper 002 eq. 9."""
    x, y = data()
    members = objectives("bernoulli")
    population = dubio.Population(members, range(MEMBERS))
    starts = [copy.deepcopy(dict(m.model.named_parameters())) for m in members]
    population.fit(x, y, steps=STEPS, batch_size=BATCH, learning_rate=1e-2)
    for m, start in enumerate(starts):
        w1, b1, w2, b2 = (p.detach().requires_grad_() for p in start.values())
        keep, scale, tau = 1 - (0.05 + 0.1 * m), 0.01 + 0.1 * m, 1.0 + 3 * m
        stream = Stream(m, 0, 0)
        adam = torch.optim.Adam([w1, b1, w2, b2], lr=1e-2)
        for _ in range(STEPS):
            rows = stream.rows(BATCH, np.arange(N))
            u = np.empty(BATCH * (4 + 8), dtype=np.float64)
            stream.fill("uniform", u)
            u1, u2 = (torch.from_numpy(part) for part in np.split(u, [BATCH * 4]))
            inputs = x[rows] * (u1.view(BATCH, 4) < keep) / keep
            hidden = (inputs @ w1.T + b1).relu() * (u2.view(BATCH, 8) < keep) / keep
            errors = (y[rows] - hidden @ w2.T - b2).square().sum(1)
            nll = (0.5 * tau * errors + 0.5 * np.log(2 * np.pi / tau)).mean()
            kl = (scale**2 * w1.square().sum() + 4 * scale**2 * w2.square().sum()) / (2 * keep)
            adam.zero_grad()
            (nll + (0.5 + 0.2 * m) * kl / N).backward()
            adam.step()
        for p, name in zip((w1, b1, w2, b2), start, strict=True):
            trained = dict(members[m].model.named_parameters())[name]
            torch.testing.assert_close(trained, p, rtol=1e-7, atol=1e-9)


def test_a_member_does_not_depend_on_who_is_trained_beside_it() -> None:
    x, y = data()
    together, apart = objectives("concrete"), objectives("concrete")
    dubio.Population(together, range(MEMBERS)).fit(x, y, steps=STEPS, batch_size=BATCH)
    for part in (slice(0, 1), slice(1, 3)):
        seeds = range(MEMBERS)[part]
        dubio.Population(apart[part], seeds).fit(x, y, steps=STEPS, batch_size=BATCH)
    for one, other in zip(together, apart, strict=True):
        assert_same(one, other)
