"""Attacks against the definition of the loss and against finite differences."""

from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio import attack
from dubio.likelihoods import Bernoulli, Categorical


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(deviation: float = 0.3) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(
        dubio.BayesLinear(6, 16, deviation=deviation), nn.Tanh(),
        nn.BatchNorm1d(16), nn.Dropout(0.2),
        dubio.BayesLinear(16, 3, deviation=deviation, sampler="flipout"),
    ).double()  # fmt: skip
    x = torch.rand(8, 6, dtype=torch.float64)
    return net, x, torch.arange(8) % 3


def mean_log_prob(net: nn.Module, x: Tensor, y: Tensor, draws: int) -> Tensor:
    """log 1/S Σ p(y | x, ω_s) of each row, as `predict` has it."""
    p = dubio.predict(net, x, draws=draws, likelihood=Categorical(), generator=seeded())
    return p.log_prob(y)


def test_gradient_is_that_of_the_predictive_mean() -> None:
    net, x, y = build()
    found = attack._gradient(net, x, y, Categorical(), dubio.Noise(5, generator=seeded()), None)
    step = 1e-6
    for column in range(6):
        moved = torch.zeros_like(x)
        moved[:, column] = step
        ends = [mean_log_prob(net, x + sign * moved, y, 5) for sign in (-1, 1)]
        torch.testing.assert_close(
            found[:, column], (ends[0] - ends[1]) / (2 * step), rtol=1e-4, atol=1e-7
        )


def test_fgsm_moves_every_entry_by_epsilon() -> None:
    net, x, y = build()
    found = attack.fgsm(net, x, y, 0.01, likelihood=Categorical(), generator=seeded(), bounds=None)
    torch.testing.assert_close((found - x).abs(), torch.full_like(x, 0.01))
    assert (mean_log_prob(net, found, y, 20) < mean_log_prob(net, x, y, 20)).all()


@pytest.mark.parametrize("fresh", [False, True])
def test_pgd_stays_in_the_ball_and_beats_fgsm(fresh: bool) -> None:
    net, x, y = build()
    options = {"likelihood": Categorical(), "draws": 10}
    one = attack.fgsm(net, x, y, 0.2, generator=seeded(1), **options)
    many = attack.pgd(
        net, x, y, 0.2, generator=seeded(1), steps=20, fresh_noise=fresh, random_start=False,
        **options,
    )  # fmt: skip
    assert (many - x).abs().max() <= 0.2 + 1e-12
    assert many.min() >= 0
    assert many.max() <= 1
    losses = [-float(mean_log_prob(net, z, y, 50).mean()) for z in (x, one, many)]
    assert losses[0] < losses[1] < losses[2] + 0.02


def test_the_same_seed_gives_the_same_attack() -> None:
    net, x, y = build()
    runs = [
        attack.pgd(net, x, y, 0.1, likelihood=Categorical(), steps=2, generator=seeded(seed))
        for seed in (0, 0, 1)
    ]
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


def test_nothing_is_changed() -> None:
    net, x, y = build()
    net.train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    attack.fgsm(net, x, y, 0.1, likelihood=Categorical(), draws=2)
    assert net.training
    assert all(parameter.grad is None for parameter in net.parameters())
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name])


def test_inference_mode_around_an_attack_makes_no_difference() -> None:
    net, x, y = build()
    options: dict[str, Any] = {"likelihood": Categorical(), "draws": 3, "bounds": None}
    expected = attack.pgd(net, x, y, 0.1, generator=seeded(), **options)
    with torch.inference_mode():
        found = attack.pgd(net, x, y, 0.1, generator=seeded(), **options)
        own = attack.pgd(net, x.clone(), y.clone(), 0.1, generator=seeded(), **options)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(own, expected)


class WithoutGradients(nn.Module):
    """A network with a switch that keeps gradients from its inputs."""

    def __init__(self, switch: Any) -> None:
        super().__init__()
        self.a, self.drop, self.switch = nn.Linear(6, 3), nn.Dropout(0.2), switch

    def forward(self, x: Tensor) -> Tensor:
        with self.switch():
            h = x.detach() if self.switch is nullcontext else x
            return self.drop(self.a(h))


@pytest.mark.parametrize("switch", [torch.no_grad, torch.inference_mode, nullcontext])
def test_a_network_without_gradients_is_refused(switch: Any) -> None:
    _, x, y = build()
    with pytest.raises(
        ValueError, match=r"expected an output with a gradient for x, got .*no_grad"
    ):
        attack.fgsm(WithoutGradients(switch), x.float(), y, 0.1, likelihood=Categorical())


def test_weights_made_in_inference_mode_are_refused() -> None:
    with torch.inference_mode():
        net, x, y = build()
    with pytest.raises(ValueError, match=r"got 0\.rho, made in torch\.inference_mode; make"):
        attack.fgsm(net, x, y, 0.1, likelihood=Categorical())


def test_robustness() -> None:
    net, x, _ = build(deviation=0.01)
    options = {"likelihood": Categorical(), "draws": 30}
    labels = dubio.predict(net, x, likelihood=Categorical(), generator=seeded()).mean.argmax(-1)
    white = attack.robustness(net, x, labels, (0, 0.1, 0.5), generator=seeded(), **options)
    p = dubio.predict(net, x, generator=seeded(), **options)
    assert white.accuracy[0] == float((p.mean.argmax(-1) == labels).double().mean())
    assert white.entropy[0] == pytest.approx(float(p.entropy.mean()))
    assert white.mutual_information[0] == pytest.approx(float(p.mutual_information.mean()))
    assert white.accuracy[2] < white.accuracy[0]
    other = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    transferred = attack.robustness(
        net, x, labels, (0, 0.5), source=other, source_draws=1, generator=seeded(), **options,
        attack=partial(attack.pgd, steps=2),
    )  # fmt: skip
    assert transferred.accuracy[0] == white.accuracy[0]
    assert len(str(white).splitlines()) == 5
    same = attack.robustness(net, x, labels, (0, 0.1, 0.5), generator=seeded(), **options)
    assert same == white


def test_accuracy_is_that_of_the_likeliest_labels() -> None:
    """Whatever axis the classes are on, and for yes and no."""
    torch.manual_seed(0)
    x = torch.rand(40, 3, 4)
    segments = nn.Sequential(dubio.BayesConv1d(3, 6, 1, deviation=0.3))
    answers = nn.Sequential(nn.Flatten(), dubio.BayesLinear(12, 2, deviation=0.3))
    for net, likelihood in ((segments, Categorical(dim=1)), (answers, Bernoulli())):
        p = dubio.predict(net, x, likelihood=likelihood, generator=seeded())
        labels = p.mean.argmax(1) if net is segments else p.mean.round()
        y = labels.clone()
        y[:10] = 1 - y[:10].clamp(max=1)  # wrong
        options = {"likelihood": likelihood, "draws": 100, "generator": seeded()}
        found = attack.robustness(net, x, y, (0.0, 0.1), **options)
        assert found.accuracy[0] == float((y == labels).double().mean()) == 0.75
        assert found.accuracy[1] <= 0.75


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: y.double(), "y: expected integer class labels"),
        (lambda y: y[:, None], r"y: expected shape \(8,\)"),
        (lambda y: y + 7, "y: expected class labels from 0 to 2"),
    ],
)
def test_labels_that_do_not_fit(change: Any, message: str) -> None:
    net, x, y = build()
    with pytest.raises(ValueError, match=message):
        attack.robustness(net, x, change(y), (0.0,), likelihood=Categorical())


def test_wrong_arguments() -> None:
    net, x, y = build()
    options = {"likelihood": Categorical()}
    for epsilon in (float("nan"), float("inf"), "a"):
        with pytest.raises(ValueError, match="epsilon: expected a number >= 0, got"):
            attack.fgsm(net, x, y, epsilon, **options)
    with pytest.raises(ValueError, match="step_size: expected a positive number, got -1"):
        attack.pgd(net, x, y, 0.1, step_size=-1, **options)
    with pytest.raises(ValueError, match="epsilons: expected at least one size"):
        attack.robustness(net, x, y, (), **options)
    with pytest.raises(ValueError, match="draws: expected a positive int, got 0"):
        attack.robustness(net, x, y, (0.1,), source_draws=0, **options)
    with pytest.raises(ValueError, match=r"epsilon: expected a number >= 0, got -0.1"):
        attack.fgsm(net, x, y, -0.1, likelihood=Categorical())
    with pytest.raises(ValueError, match=r"bounds: expected entries of x within \(0.0, 1.0\)"):
        attack.fgsm(net, x * 3, y, 0.1, likelihood=Categorical())
    with pytest.raises(TypeError, match="floating-point"):
        attack.fgsm(net, y, y, 0.1, likelihood=Categorical())
    with pytest.raises(ValueError, match="steps: expected a positive int, got 0"):
        attack.pgd(net, x, y, 0.1, likelihood=Categorical(), steps=0)
    with pytest.raises(TypeError, match="likelihood: expected one for labels"):
        attack.robustness(net, x, y, (0.1,), likelihood=dubio.likelihoods.Gaussian(1.0))
