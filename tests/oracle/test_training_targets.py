"""Soft labels, smoothing and weights of classes, against torch's own losses."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import dubio
from dubio import metrics
from dubio.calibrate import TemperatureScaling
from dubio.likelihoods import Bernoulli, Categorical
from dubio.predictive.predictive import Predictive, StoredDraws

WEIGHTS = [0.5, 2.0, 1.0, 0.0]
SMOOTHINGS = pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
WEIGHTED = pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def labels(*shape: int, classes: int = 4) -> Tensor:
    return torch.randint(classes, shape, generator=torch.Generator().manual_seed(1))


@SMOOTHINGS
@WEIGHTED
@pytest.mark.parametrize("kind", ["labels", "soft"])
@pytest.mark.parametrize("event", [(), (2, 3)])
@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
def test_losses_of_classes_are_torchs(
    smoothing: float, weights: list[float] | None, kind: str, event: tuple[int, ...], outputs: Any
) -> None:
    scores = normal(5, 4, *event).requires_grad_()
    y = labels(5, *event) if kind == "labels" else normal(5, 4, *event, seed=2).softmax(1)
    likelihood = Categorical(1, outputs, class_weights=weights, smoothing=smoothing)
    given = scores if outputs == "logits" else scores.softmax(1)
    found = likelihood.losses(given, y)
    weight = None if weights is None else torch.tensor(weights, dtype=scores.dtype)
    expected = F.cross_entropy(
        scores, y, weight=weight, label_smoothing=smoothing, reduction="none"
    ).flatten(1).sum(1) if event else F.cross_entropy(
        scores, y, weight=weight, label_smoothing=smoothing, reduction="none"
    )  # fmt: skip
    torch.testing.assert_close(found, expected)
    (one,) = torch.autograd.grad(found.sum(), scores, retain_graph=True)
    (other,) = torch.autograd.grad(expected.sum(), scores)
    torch.testing.assert_close(one, other)


def test_soft_labels_of_a_single_class_are_labels() -> None:
    scores, y = normal(6, 4), labels(6)
    hard = Categorical().losses(scores, y)
    torch.testing.assert_close(Categorical().losses(scores, F.one_hot(y, 4).double()), hard)


def test_impossible_classes_cost_nothing_where_a_soft_label_has_none() -> None:
    scores = torch.tensor([[0.0, 1.0, -torch.inf]], requires_grad=True)
    loss = Categorical().losses(scores, torch.tensor([[0.25, 0.75, 0.0]]))
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    assert loss.isfinite().all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("pos_weight", [None, 3.0, [0.5, 1.0, 4.0]])
@pytest.mark.parametrize("kind", ["labels", "soft"])
@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
def test_losses_of_questions_are_torchs(pos_weight: Any, kind: str, outputs: Any) -> None:
    scores = 3 * normal(5, 3)
    y = labels(5, 3, classes=2).double() if kind == "labels" else normal(5, 3, seed=2).sigmoid()
    weight = None if pos_weight is None else torch.tensor(pos_weight, dtype=scores.dtype)
    given = scores if outputs == "logits" else scores.sigmoid()
    found = Bernoulli(outputs, pos_weight=pos_weight).losses(given, y)
    expected = F.binary_cross_entropy_with_logits(scores, y, pos_weight=weight, reduction="none")
    torch.testing.assert_close(found, expected.sum(1))


def test_log_prob_stays_that_of_the_label() -> None:
    """Weights and smoothing are for training: a prediction is judged by its probabilities."""
    scores, y = normal(3, 5, 4), labels(5)
    told = Categorical(class_weights=WEIGHTS, smoothing=0.2)
    assert torch.equal(told.log_prob(scores, y), Categorical().log_prob(scores, y))
    yes = labels(5, 4, classes=2).double()
    plain = Bernoulli().log_prob(scores, yes)
    assert torch.equal(Bernoulli(pos_weight=5.0).log_prob(scores, yes), plain)


@pytest.mark.parametrize("kind", ["bernoulli", "learnable"])
def test_the_elbo_takes_soft_labels_and_weights(kind: str) -> None:
    torch.manual_seed(0)
    mask = {"bernoulli": dubio.masks.Bernoulli, "learnable": dubio.masks.LearnableBernoulli}[kind]
    net = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), dubio.Masked(nn.Linear(6, 4), mask(drop=0.3)))
    net.double()
    x, y = normal(7, 5), normal(7, 4, seed=2).softmax(-1)
    generator = torch.Generator().manual_seed(3)
    told = Categorical(class_weights=WEIGHTS, smoothing=0.1)
    elbo = dubio.ELBO(
        net, told, num_data=7, estimator="trapezoid_once", shared=True, generator=generator
    )
    elbo(x, y).backward()
    with dubio.Noise(1, shared=True, generator=torch.Generator().manual_seed(3)):
        scores = net(x)
    weight = torch.tensor(WEIGHTS).double()
    expected = F.cross_entropy(scores, y, weight=weight, label_smoothing=0.1, reduction="none")
    torch.testing.assert_close(elbo.nll, expected.mean().detach())


class TestTokens:
    """Token tagging: logits (B, L, K), labels (B, L) with -100 for what does not count."""

    scores = 2 * normal(3, 6, 5, 4)
    y = labels(6, 5).where(normal(6, 5, seed=4) < 0.5, -100)
    known = y != -100

    def test_log_prob_and_losses(self) -> None:
        expected = F.cross_entropy(
            self.scores.flatten(0, 2), self.y.repeat(3, 1).flatten(), reduction="none"
        ).view(3, 6, 5).sum(-1)  # fmt: skip
        found = Categorical(void=-100).log_prob(self.scores, self.y)
        torch.testing.assert_close(found, -expected)
        smoothed = Categorical(void=-100, class_weights=WEIGHTS, smoothing=0.1)
        one = F.cross_entropy(
            self.scores[0].flatten(0, 1), self.y.flatten(), reduction="none",
            weight=torch.tensor(WEIGHTS).double(), label_smoothing=0.1,
        ).view(6, 5).sum(-1)  # fmt: skip
        torch.testing.assert_close(smoothed.losses(self.scores[0], self.y), one)

    def test_the_elbo(self) -> None:
        net = nn.Linear(3, 4).double()
        x = normal(6, 5, 3)
        elbo = dubio.ELBO(net, Categorical(void=-100), num_data=6)
        expected = F.cross_entropy(net(x).flatten(0, 1), self.y.flatten(), reduction="sum") / 6
        torch.testing.assert_close(elbo(x, self.y), expected)

    def test_metrics_and_calibration(self) -> None:
        p = Predictive(Categorical(void=-100), StoredDraws(self.scores))
        mean = self.scores.softmax(-1).mean(0)[self.known]  # (N, K)
        y = self.y[self.known]
        nll = F.nll_loss(mean.log(), y)
        torch.testing.assert_close(metrics.nll(p, self.y), nll)
        assert metrics.accuracy(p, self.y) == (mean.argmax(-1) == y).double().mean()
        found = TemperatureScaling().fit(p, self.y)
        flat = Predictive(
            Categorical(), StoredDraws(self.scores.flatten(1, 2)[:, self.known.flatten()])
        )
        torch.testing.assert_close(found.temperature, TemperatureScaling().fit(flat, y).temperature)


@pytest.mark.parametrize(
    ("dim", "outputs", "targets", "right"),
    [(-1, (2, 4, 3, 5), (2, 3, 5), 1), (1, (2, 5, 4), (2, 5), 2), (2, (2, 4, 3, 5), (2, 3, 5), 1)],
)
def test_a_mistaken_dimension_is_named(
    dim: int, outputs: tuple[int, ...], targets: tuple[int, ...], right: int
) -> None:
    scores, y = normal(*outputs), torch.zeros(targets, dtype=torch.long)
    likelihood = Categorical(dim)
    p = Predictive(likelihood, StoredDraws(scores[None]))
    calls = (
        lambda: likelihood.log_prob(scores[None], y),
        lambda: likelihood.losses(scores, y),
        lambda: Categorical(dim, smoothing=0.1).losses(scores, y),
        lambda: dubio.ELBO(nn.Identity(), likelihood, num_data=2)(scores, y),
        lambda: p.log_prob(y),
        lambda: TemperatureScaling().fit(p, y),
        lambda: metrics.nll(p, y),
        lambda: metrics.ece(p, y),
        lambda: metrics.mean_iou(p, y, 4),
        lambda: dubio.decide.Deferral("entropy").fit_error_rate(p, y, 0.5),
    )
    for call in calls:
        with pytest.raises(ValueError, match=rf"use Categorical\(dim={right}\)"):
            call()


def test_soft_labels_in_metrics() -> None:
    scores, y = normal(3, 6, 4), normal(6, 4, seed=5).softmax(-1)
    p = Predictive(Categorical(), StoredDraws(scores))
    mean = scores.softmax(-1).mean(0)
    torch.testing.assert_close(metrics.nll(p, y), -(y * mean.log()).sum(-1).mean())
    torch.testing.assert_close(metrics.nll(mean, y), -(y * mean.log()).sum(-1).mean())
    torch.testing.assert_close(metrics.brier(p, y), (mean - y).square().sum(-1).mean())
    hard = F.one_hot(labels(6), 4).double()
    torch.testing.assert_close(metrics.brier(p, hard), metrics.brier(p, labels(6)))
    torch.testing.assert_close(metrics.nll(p, hard), metrics.nll(p, labels(6)))
    maps = normal(3, 2, 4, 3, 5)
    soft = normal(2, 4, 3, 5, seed=5).softmax(1)
    q = Predictive(Categorical(1), StoredDraws(maps))
    expected = F.cross_entropy(maps.softmax(2).mean(0).log(), soft)
    torch.testing.assert_close(metrics.nll(q, soft), expected)
    with pytest.raises(ValueError, match="target: expected probabilities >= 0 that sum to 1"):
        metrics.nll(p, 2 * y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Categorical(class_weights=[1.0, -1.0]), "class_weights: expected finite"),
        (lambda: Categorical(class_weights=[0.0, 0.0]), "class_weights: expected finite"),
        (lambda: Categorical(smoothing=1.5), r"smoothing: expected a share in \[0, 1\]"),
        (lambda: Bernoulli(pos_weight=-1.0), "pos_weight: expected finite"),
        (
            lambda: Categorical(class_weights=[1.0, 2.0]).losses(normal(5, 4), labels(5)),
            "class_weights: expected one for each of 4 classes along dim=-1, got 2",
        ),
        (
            lambda: Bernoulli(pos_weight=[1.0, 2.0]).losses(normal(5, 4), normal(5, 4) * 0),
            "pos_weight: expected a number or 4, one for each question",
        ),
        (lambda: Bernoulli().losses(normal(5, 4), normal(5, 4)), r"y: expected values in \[0, 1\]"),
        (lambda: Categorical().losses(normal(5, 4), normal(5, 4)), "y: expected probabilities"),
        (
            lambda: Categorical().log_prob(normal(2, 5, 4), normal(5, 4).softmax(-1)),
            "ELBO and metrics.nll take soft labels",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_likelihoods_compare_by_their_weights() -> None:
    one = Categorical(class_weights=torch.tensor([1.0, 2.0]))
    assert one == Categorical(class_weights=[1.0, 2.0])
    assert len({one, Categorical(class_weights=(1.0, 2.0)), Categorical()}) == 2


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [
        (Categorical(class_weights=WEIGHTS, smoothing=0.1), labels(3, 5)),
        (Categorical(void=2, smoothing=0.1), labels(3, 5)),
        (Categorical(class_weights=WEIGHTS), normal(3, 5, 4, seed=2).softmax(-1)),
        (Bernoulli(), normal(3, 5, 4, seed=2).sigmoid()),
        (Bernoulli(pos_weight=[1.0, 2.0, 3.0, 4.0]), labels(3, 5, 4, classes=2).double()),
    ],
    ids=str,
)
def test_losses_of_many_networks_at_once(likelihood: Any, y: Tensor) -> None:
    """As a population computes them: by torch.vmap."""
    scores = normal(3, 5, 4)
    found = torch.vmap(likelihood.losses)(scores, y)
    expected = torch.stack([likelihood.losses(*pair) for pair in zip(scores, y, strict=True)])
    torch.testing.assert_close(found, expected)
