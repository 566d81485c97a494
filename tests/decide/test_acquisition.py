"""Acquisition for active learning: against values and joint informations by enumeration."""

import math
from itertools import product

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

import dubio
from dubio.decide import acquire, acquisition
from dubio.decide.acquisition import ACQUISITIONS, Acquisition
from dubio.likelihoods import Bernoulli, Categorical, Gaussian
from dubio.predictive.predictive import Predictive, StoredDraws


def pool(draws: int = 4, rows: int = 7, classes: int = 3, seed: int = 0) -> Predictive:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(draws, rows, classes, generator=generator, dtype=torch.float64)
    return Predictive(Categorical(), StoredDraws(logits))


def probabilities(p: Predictive) -> Tensor:  # (S, B, K)
    return p.draws.softmax(-1)


def joint_information(q: Tensor, rows: list[int]) -> float:
    """I[labels of some rows, network], from the table of their joint probabilities."""
    entropy = given = 0.0
    for labels in product(range(q.shape[-1]), repeat=len(rows)):
        each = [
            math.prod(float(one[row, k]) for row, k in zip(rows, labels, strict=True)) for one in q
        ]
        mean = sum(each) / len(q)
        entropy -= mean * math.log(mean)
        given -= sum(value * math.log(value) for value in each) / len(q)
    return entropy - given


@pytest.mark.parametrize("seed", range(3))
def test_values(seed: int) -> None:
    p = pool(seed=seed)
    q = probabilities(p)
    mean = q.mean(0).numpy()
    values: dict[Acquisition, list[float]] = {
        "bald": [joint_information(q, [row]) for row in range(7)],
        "entropy": scipy.stats.entropy(mean, axis=-1).tolist(),
        "variation": (1 - mean.max(-1)).tolist(),
    }
    for by, expected in values.items():
        assert acquire(p, 7, by).tolist() == np.argsort(expected)[::-1].tolist()
        assert acquire(p, 2, by).tolist() == np.argsort(expected)[::-1][:2].tolist()


@pytest.mark.parametrize("seed", range(3))
def test_batchbald(seed: int) -> None:
    """Every row has the largest joint information with those before."""
    p = pool(rows=5, seed=seed)
    chosen = acquire(p, 4, "batchbald").tolist()
    assert len(set(chosen)) == 4
    for place, row in enumerate(chosen):
        before = chosen[:place]
        others = [other for other in range(5) if other not in before]
        found = {other: joint_information(probabilities(p), [*before, other]) for other in others}
        assert row == max(found, key=found.__getitem__)


def test_one_of_batchbald_is_that_of_bald() -> None:
    for seed in range(20):
        p = pool(rows=30, seed=seed)
        assert torch.equal(acquire(p, 1, "batchbald"), acquire(p, 1, "bald"))


def test_sampled_configurations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joint entropies by samples are near the exact ones: within 5 standard errors, which are
    below 0.01 here, as the spread of log p is below 2 and there are 40,000 samples."""
    p = pool(draws=6, rows=6)
    q = probabilities(p)
    monkeypatch.setattr(acquisition, "MOST_CONFIGURATIONS", 40_000)
    drawn = acquisition._drawn(q[:, [0, 1, 2]], torch.Generator().manual_seed(0))
    found = acquisition._joint_entropy(drawn, 1 / (len(drawn) * drawn.mean(-1)), q)
    table = torch.einsum("sa,sb,sc,snk->abcnk", q[:, 0], q[:, 1], q[:, 2], q) / len(q)
    expected = torch.special.entr(table).sum((0, 1, 2, 4))
    torch.testing.assert_close(found, expected, rtol=0, atol=0.05)
    monkeypatch.setattr(acquisition, "MOST_CONFIGURATIONS", 2_000)
    assert sorted(acquire(p, 6, "batchbald").tolist()) == list(range(6))
    monkeypatch.setattr(acquisition, "MOST_CONFIGURATIONS", 9)  # exact for two rows, then drawn
    assert acquire(p, 3, "batchbald").tolist()[:2] == acquire(p, 2, "batchbald").tolist()


def test_duplicates() -> None:
    """BALD takes a row that tells most as often as it is there; BatchBALD does not."""
    halves = torch.tensor(
        [[1.0, 1.0, 1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, 1.0], [-1.0, -1.0, -1.0]]
    )
    logits = halves * torch.tensor([8.0, 8.0, 6.0])  # (4, 3): the last row is a bit less sure
    p = Predictive(Bernoulli(), StoredDraws(logits.double()))
    assert set(acquire(p, 2, "bald").tolist()) == {0, 1}
    chosen = acquire(p, 2, "batchbald").tolist()
    assert chosen[0] in (0, 1)
    assert chosen[1] == 2


@pytest.mark.parametrize("by", ACQUISITIONS)
def test_ties_are_random(by: Acquisition) -> None:
    """All of 5 equal rows come first some time: by chance one is missing in 5 · 0.8⁸⁰ = 1e-7."""
    p = Predictive(Categorical(), StoredDraws(pool(rows=1).draws.expand(-1, 5, -1)))
    generator = torch.Generator().manual_seed(0)
    firsts = {int(acquire(p, 1, by, generator=generator)) for _ in range(80)}
    assert firsts == set(range(5))
    assert torch.equal(acquire(p, 3, by), acquire(p, 3, by))


@pytest.mark.parametrize("by", ACQUISITIONS)
def test_of_a_network(by: Acquisition) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 9), torch.nn.Dropout(0.5), torch.nn.Linear(9, 3))
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    p = dubio.predict(net, x, likelihood=Categorical(), draws=10, shared=True)
    state = torch.get_rng_state()
    chosen = acquire(p, 8, by)
    assert torch.equal(torch.get_rng_state(), state)
    assert len(set(chosen.tolist())) == 8


@pytest.mark.parametrize("by", ACQUISITIONS)
@pytest.mark.parametrize("shape", [(6, 8), (6, 8, 1)])
def test_yes_or_no(by: Acquisition, shape: tuple[int, ...]) -> None:
    yes = 3 * torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    binary = Predictive(Bernoulli(), StoredDraws(yes))
    column = yes.reshape(6, 8)
    both = torch.stack([torch.zeros_like(column), column], -1)
    expected = acquire(Predictive(Categorical(), StoredDraws(both)), 3, by)
    assert torch.equal(acquire(binary, 3, by), expected)


class TestMistakes:
    @pytest.mark.parametrize("n", [0, 8, 2.0, True])
    def test_number(self, n: int) -> None:
        with pytest.raises(ValueError, match=r"n: expected a whole number from 1 to 7.*got"):
            acquire(pool(), n)

    def test_name(self) -> None:
        with pytest.raises(ValueError, match="by: expected one of bald, batchbald"):
            acquire(pool(), 1, "BALD")  # type: ignore[arg-type]

    @pytest.mark.parametrize("by", ["bald", "batchbald"])
    def test_one_draw(self, by: Acquisition) -> None:
        with pytest.raises(ValueError, match="p: expected at least 2 draws"):
            acquire(pool(draws=1), 1, by)
        acquire(pool(draws=1), 1, "entropy")

    def test_probabilities_without_draws(self) -> None:
        with pytest.raises(TypeError, match=r"p: expected a Predictive, which has draws"):
            acquire(torch.full((5, 3), 1 / 3), 1)  # type: ignore[arg-type]

    def test_numbers(self) -> None:
        p = Predictive(Gaussian(1.0), StoredDraws(torch.ones(2, 5, 1)))
        with pytest.raises(TypeError, match="p: expected a prediction of labels"):
            acquire(p, 1)

    def test_pixels(self) -> None:
        p = Predictive(Categorical(dim=1), StoredDraws(torch.randn(2, 5, 3, 4, 4)))
        with pytest.raises(ValueError, match="one label a row"):
            acquire(p, 1)

    @pytest.mark.parametrize("by", ACQUISITIONS)
    def test_nan(self, by: Acquisition) -> None:
        draws = pool().draws.clone()
        draws[1, 2] = math.nan
        with pytest.raises(ValueError, match="got NaN in 1 of 7 rows"):
            acquire(Predictive(Categorical(), StoredDraws(draws)), 1, by)
