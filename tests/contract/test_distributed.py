"""Two processes of DistributedDataParallel against one process on the joined batch."""

from typing import Any, get_args

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dubio import ELBO, BayesLinear, Masked
from dubio.likelihoods import Categorical
from dubio.masks import Concrete, LearnableBernoulli, LearnableGaussian
from dubio.objectives.estimators import Estimator
from dubio.priors import ScaleMixture

ROWS, RANKS = 8, 2
CASES = [(estimator, shared) for estimator in get_args(Estimator) for shared in (True, False)]


def build() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 7), nn.ReLU(), Masked(nn.Linear(7, 6), Concrete(7, drop=0.3)), nn.ReLU(),
        Masked(nn.Linear(6, 5), LearnableBernoulli(6, drop=0.4)), nn.Tanh(),
        Masked(nn.Linear(5, 4), LearnableGaussian(1, drop=0.2)), nn.Tanh(),
        BayesLinear(4, 4, sampler="local", prior=ScaleMixture(0.5, 1.0, 0.1)), nn.Tanh(),
        BayesLinear(4, 3),
    ).double()  # fmt: skip


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS * RANKS, 6, dtype=torch.float64, generator=generator)
    return x, torch.randint(3, (ROWS * RANKS,), generator=generator)


def objective(net: nn.Module, estimator: Estimator, shared: bool, seed: int) -> ELBO:
    """With the same masks everywhere if they are shared, else with masks of its own."""
    generator = torch.Generator().manual_seed(0 if shared else seed)
    return ELBO(
        net, Categorical(), ROWS * RANKS, estimator=estimator, shared=shared, generator=generator
    )


def losses_of_one_batch() -> Tensor:
    """On the same rows from the same seed everywhere, without a generator."""
    elbo = ELBO(build(), Categorical(), ROWS * RANKS)
    found = []
    for _ in range(2):
        torch.manual_seed(3)
        found.append(elbo(*data()).detach())
    return torch.stack(found)


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS
    )
    x, y = (part.chunk(RANKS)[rank] for part in data())
    found: list[list[Tensor]] = []
    for estimator, shared in CASES:
        elbo = objective(build(), estimator, shared, rank)
        parallel = DistributedDataParallel(elbo)
        parallel(x, y).backward()
        found.append([p.grad for p in elbo.parameters() if p.grad is not None])
    torch.save(found, f"{folder}/{rank}.pt")
    torch.save(losses_of_one_batch(), f"{folder}/{rank}-losses.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def distributed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("ddp")
    torch.multiprocessing.spawn(work, (str(folder),), nprocs=RANKS)
    losses = [torch.load(folder / f"{rank}-losses.pt") for rank in range(RANKS)]
    return [[torch.load(folder / f"{rank}.pt") for rank in range(RANKS)], losses]


@pytest.mark.parametrize("case", range(len(CASES)), ids=[f"{e}-{s}" for e, s in CASES])
def test_gradients_are_those_of_the_joined_batch(case: int, distributed: list[Any]) -> None:
    estimator, shared = CASES[case]
    net = build()
    x, y = data()
    if shared:
        loss = objective(net, estimator, shared, 0)(x, y)
    else:  # masks by row: those that the two processes have drawn
        losses = [
            objective(net, estimator, shared, rank)(x.chunk(RANKS)[rank], y.chunk(RANKS)[rank])
            for rank in range(RANKS)
        ]
        loss = torch.stack(losses).mean()
    loss.backward()
    expected = [p.grad for p in net.parameters()]
    assert len(expected) == len(list(net.parameters()))
    for found in distributed[0]:
        for one, other in zip(found[case], expected, strict=True):
            torch.testing.assert_close(one, other)


def test_processes_with_one_seed_have_noise_of_their_own(distributed: list[Any]) -> None:
    one, other = distributed[1]
    assert one[0] == one[1]
    assert other[0] == other[1]
    assert one[0] != other[0]
