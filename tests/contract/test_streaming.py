"""Draws that are not kept: statistics stream, and log-likelihoods come from drawing again."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

import dubio
from dubio.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Likelihood,
)
from networks import build, mlp
from references import seeded

STATISTICS: list[tuple[Likelihood | None, list[str]]] = [
    (None, ["mean", "variance", "std"]),
    (Gaussian(2.0), ["mean", "variance", "epistemic", "aleatoric"]),
    (HeteroscedasticGaussian(), ["mean", "variance", "epistemic", "aleatoric"]),
    (
        Categorical(),
        [
            "mean",
            "variance",
            "entropy",
            "expected_entropy",
            "mutual_information",
            "variation_ratio",
        ],
    ),
    (
        Bernoulli(),
        ["mean", "entropy", "expected_entropy", "mutual_information", "variation_ratio"],
    ),
]
TARGETS: dict[type[Likelihood], Callable[[], Tensor]] = {
    Gaussian: lambda: torch.randn(11, 4, generator=seeded()),
    HeteroscedasticGaussian: lambda: torch.randn(11, 2, generator=seeded()),
    Categorical: lambda: torch.arange(11) % 4,
    Bernoulli: lambda: (torch.arange(44) % 2).view(11, 4).float(),
}


def four_outputs() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(mlp(), nn.Linear(3, 4)), torch.randn(11, 6)


def load(network: nn.Module, x: Tensor) -> None:
    network.load_state_dict({name: 2 * value for name, value in network.state_dict().items()})


def train(network: nn.Module, x: Tensor) -> None:
    network(x).sum().backward()
    torch.optim.SGD(network.parameters(), lr=0.1).step()


def cast(network: nn.Module, x: Tensor) -> None:
    network.bfloat16()


def replace_layer(network: nn.Module, x: Tensor) -> None:
    network[1] = nn.Linear(3, 4)  # type: ignore[operator]


def change_rate(network: nn.Module, x: Tensor) -> None:
    next(m for m in network.modules() if isinstance(m, nn.Dropout)).p = 0.9


def change_batch(network: nn.Module, x: Tensor) -> None:
    x.add_(1)


@pytest.mark.parametrize("source", ["tensor", "loader"])
@pytest.mark.parametrize("chunk", [1, 7, None])
@pytest.mark.parametrize(("likelihood", "names"), STATISTICS, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("shared", [False, True])
def test_statistics_are_those_of_kept_draws(
    likelihood: Likelihood | None,
    names: list[str],
    source: str,
    chunk: int | None,
    shared: bool,
) -> None:
    network, x = four_outputs()
    batches: Any = x if source == "tensor" else DataLoader(TensorDataset(x), batch_size=4)
    streamed, kept = (
        dubio.predict(
            network,
            batches,
            draws=20,
            likelihood=likelihood,
            shared=shared,
            generator=seeded(),
            chunk=chunk if not keep else None,
            keep_draws=keep,
        )
        for keep in (False, True)
    )
    for name in names:
        torch.testing.assert_close(getattr(streamed, name), getattr(kept, name), msg=name)
    if likelihood is not None:
        y = TARGETS[type(likelihood)]()
        torch.testing.assert_close(streamed.log_prob(y), kept.log_prob(y))
        torch.testing.assert_close(streamed.log_prob(y), kept.log_prob(y))  # and once more
    assert streamed.num_draws == 20


@pytest.mark.parametrize("name", ["data dependent", "own noise", "written into", "in-place"])
def test_networks_that_run_once_per_draw_stream_too(name: str) -> None:
    network, x = build(name)
    streamed, kept = (
        dubio.predict(
            network,
            x.clone(),
            draws=9,
            likelihood=Categorical(),
            generator=seeded(),
            keep_draws=keep,
        )
        for keep in (False, True)
    )
    y = torch.tensor([0, 1, 2, 0])
    torch.testing.assert_close(streamed.mean, kept.mean)
    torch.testing.assert_close(streamed.log_prob(y), kept.log_prob(y))


@pytest.mark.parametrize(
    "ask",
    [
        lambda predictive: predictive.draws,
        lambda predictive: predictive.quantile(0.5),
        lambda predictive: predictive.interval(),
        lambda predictive: predictive.sample(),
    ],
    ids=["draws", "quantile", "interval", "sample"],
)
def test_what_needs_all_draws_says_so(ask: Callable[[dubio.Predictive], object]) -> None:
    network, x = four_outputs()
    streamed = dubio.predict(network, x, draws=5, keep_draws=False)
    with pytest.raises(ValueError, match=r"call predict with keep_draws=True"):
        ask(streamed)


@pytest.mark.parametrize(
    "loader",
    [
        lambda data: DataLoader(data, batch_size=3, shuffle=True),
        lambda data: DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 3, False)),
        lambda data: ([x] for x, _ in DataLoader(data, batch_size=3)),
    ],
    ids=["shuffled", "shuffled batches", "generator"],
)
def test_batches_that_cannot_be_read_again_have_no_log_prob(
    loader: Callable[[Dataset[tuple[Tensor, ...]]], Any],
) -> None:
    network, x = four_outputs()
    batches = loader(TensorDataset(x, torch.arange(11)))
    streamed = dubio.predict(network, batches, draws=5, likelihood=Categorical(), keep_draws=False)
    assert streamed.mean.shape == (11, 4)
    with pytest.raises(RuntimeError, match=r"shuffle=False.*keep_draws=True"):
        streamed.log_prob(torch.zeros(11, dtype=torch.long))


@pytest.mark.parametrize(
    "change",
    [load, train, cast, replace_layer, change_rate, change_batch],
)
def test_a_network_that_has_changed_has_no_log_prob(
    change: Callable[[nn.Module, Tensor], object],
) -> None:
    network, x = four_outputs()
    streamed = dubio.predict(network, x, draws=5, likelihood=Categorical(), keep_draws=False)
    change(network, x)
    with pytest.raises(RuntimeError, match=r"changed since predict.*call predict again"):
        streamed.log_prob(torch.zeros(11, dtype=torch.long))


def test_modes_and_gradients_are_no_change() -> None:
    network, x = four_outputs()
    streamed = dubio.predict(network, x, draws=5, likelihood=Categorical(), keep_draws=False)
    y = torch.zeros(11, dtype=torch.long)
    expected = streamed.log_prob(y)
    network.train()
    network(x).sum().backward()
    torch.testing.assert_close(streamed.log_prob(y), expected)


def test_log_prob_remembers_autocast() -> None:
    network, x = four_outputs()
    options = {"draws": 5, "likelihood": Categorical()}
    with torch.autocast("cpu", torch.bfloat16):
        streamed = dubio.predict(network, x, generator=seeded(), keep_draws=False, **options)
        kept = dubio.predict(network, x, generator=seeded(), **options)
    y = torch.zeros(11, dtype=torch.long)
    torch.testing.assert_close(streamed.log_prob(y), kept.log_prob(y))


@pytest.mark.parametrize("options", [{}, {"keep_draws": False}, {"gradients": True}])
def test_batches_of_different_lengths_say_what_to_do(options: dict[str, bool]) -> None:
    network = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Dropout(0.5))
    batches = [torch.randn(3, 5, 6), torch.randn(3, 7, 6)]  # (B, T, 6)
    with pytest.raises(ValueError, match=r"rows of one shape, got \(5, 4\) and \(7, 4\); pad"):
        dubio.predict(network, batches, draws=3, **options)
    pooled = torch.nn.Sequential(network, torch.nn.AdaptiveAvgPool2d((1, 4)))
    assert dubio.predict(pooled, batches, draws=3, **options).mean.shape == (6, 1, 4)
