"""The objective in unusual company, and what it says about wrong arguments."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import dubio
from dubio import ELBO, DropConnect, Masked
from dubio.likelihoods import Categorical, Gaussian
from dubio.masks import Concrete, LearnableBernoulli
from dubio.noise.run import current_pass
from dubio.objectives import estimators
from dubio.objectives.estimators import Estimator
from estimator_cases import every_estimator
from mask_cases import Case, every_mask


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def data() -> tuple[Tensor, Tensor]:
    return torch.randn(8, 6, generator=seeded(1)), torch.randint(3, (8,), generator=seeded(2))


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(Masked(nn.Linear(6, 3), LearnableBernoulli(6, drop=0.4)))


@every_estimator
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_value_without_gradients(estimator: Estimator, mode: Any) -> None:
    elbo = ELBO(net(), Categorical(), 9, estimator=estimator)
    with mode():
        assert elbo(*data()).isfinite()


@every_estimator
def test_a_mask_that_is_not_reached(estimator: Estimator) -> None:
    class Skips(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unused = Masked(nn.Linear(6, 3), LearnableBernoulli(6))
            self.used = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x)

    ELBO(Skips(), Categorical(), 9, estimator=estimator)(*data()).backward()


@every_mask
def test_checkpointing_is_refused_with_noise_and_works_without(kind: Case) -> None:
    block = Masked(nn.Linear(6, 3), kind(6))

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(6, 6)
            self.block = block

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.block, self.first(x), use_reentrant=False)

    model = Checkpointed()
    with pytest.raises(NotImplementedError, match=r"torch\.utils\.checkpoint would be drawn anew"):
        ELBO(model, Categorical(), 9)(*data())
    model.train()(data()[0]).sum().backward()
    assert dubio.predict(model, data()[0], draws=3).variance.sum() > 0


@pytest.mark.parametrize("learnable", [False, True])
def test_double_backward_sees_the_rates(learnable: bool) -> None:
    mask = LearnableBernoulli(4, drop=0.3) if learnable else Concrete(4, drop=0.3)
    mask.double()
    x = torch.randn(5, 4, dtype=torch.float64, generator=seeded()).requires_grad_()
    noise = dubio.Noise(generator=seeded(1))

    def slope() -> Tensor:
        with noise:
            running = current_pass()
            assert running is not None
            running.gate = estimators._BITS  # a mask whose zeros and ones stay where they are
            out = mask(x).pow(3).sum()
        (gradient,) = torch.autograd.grad(out, x, create_graph=True)
        return gradient.square().sum()

    (found,) = torch.autograd.grad(slope(), mask.logit)
    step = 1e-6
    expected = torch.zeros_like(found)
    for k in range(4):
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                mask.logit[k] += sign * step
            values.append(slope().detach())
            with torch.no_grad():
                mask.logit[k] -= sign * step
        expected[k] = (values[0] - values[1]) / (2 * step)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_one_mask_in_two_layers_is_an_error() -> None:
    mask = Concrete(6)
    model = nn.Sequential(Masked(nn.Linear(6, 6), mask), Masked(nn.Linear(6, 3), mask))
    with pytest.raises(ValueError, match=r"one Concrete is the mask of two of them.*tied"):
        ELBO(model, Categorical(), 9)(*data())
    model = nn.Sequential(Masked(nn.Linear(6, 6), mask), Masked(nn.Linear(6, 3), mask.tied()))
    ELBO(model, Categorical(), 9)(*data()).backward()
    assert mask.logit.grad is not None
    once = nn.Sequential(model[0], nn.ReLU(), model[0])  # one module twice counts once
    torch.testing.assert_close(dubio.kl(once), model[0].kl())


@pytest.mark.parametrize("draws", [1, 3])
def test_batch_normalisation_counts_once_for_all_draws(draws: int) -> None:
    model = nn.Sequential(Masked(nn.Linear(6, 3), Concrete(6)), nn.BatchNorm1d(3))
    ELBO(model, Categorical(), 9, draws=draws)(*data())
    assert model[1].num_batches_tracked == 1


def test_eval_mode_takes_what_the_layer_takes() -> None:
    layer = nn.Linear(6, 3)
    x = torch.rand(6)
    torch.testing.assert_close(Masked(layer, Concrete(6)).eval()(x), layer(x))


@pytest.mark.parametrize(
    "schedule", [dubio.schedules.warm_up(5), dubio.schedules.minibatch_weights(4)]
)
def test_an_objective_with_a_schedule_is_pickled(schedule: Any) -> None:
    elbo = pickle.loads(pickle.dumps(ELBO(net(), Categorical(), 9, kl_weight=schedule)))
    assert elbo(*data()).isfinite()


def test_num_data_of_numpy() -> None:
    assert ELBO(net(), Categorical(), np.int64(8)).num_data == 8


def test_parametrized_recurrent_layers() -> None:
    rnn = torch.nn.utils.parametrizations.spectral_norm(nn.LSTM(6, 4), "weight_ih_l0")
    masked = Masked(rnn, Concrete(6))
    assert masked.kl().isfinite()


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "mask: a module": (
        lambda: Masked(nn.Linear(6, 3), nn.Dropout(0.2)), TypeError, "mask: expected a mask such as"
    ),
    "mask: a class": (
        lambda: Masked(nn.Linear(6, 3), Concrete), TypeError, "got the class Concrete"
    ),
    "mask: a rate": (lambda: DropConnect(nn.Linear(6, 3), 0.1), TypeError, "mask: expected a mask"),
    "units: a float": (lambda: Concrete(64.0), ValueError, "units: expected a whole number"),
    "weight_norm": (
        lambda: DropConnect(
            torch.nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)), Concrete()
        ),
        TypeError,
        "layer: expected weight as a parameter",
    ),
    "model: a function": (lambda: ELBO(torch.relu, Categorical(), 9), TypeError, "model: expected"),
    "kl_weight: None": (
        lambda: ELBO(net(), Categorical(), 9, kl_weight=None), ValueError, "kl_weight: expected"
    ),
    "kl_weight: negative": (
        lambda: ELBO(net(), Categorical(), 9, kl_weight=-1.0), ValueError, "kl_weight: expected"
    ),
    "y: a list": (
        lambda: ELBO(net(), Categorical(), 9)(data()[0], [0] * 8), TypeError, "y: expected a tensor"
    ),
    "m_step: a fixed precision": (
        lambda: dubio.m_step(net(), Gaussian(1.0), data()), TypeError, "statistics, the M-step: not"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments(what: str) -> None:
    act, kind, message = WRONG[what]
    with pytest.raises(kind, match=message):
        act()


def test_weights_written_over_before_backward_are_an_error() -> None:
    model = nn.Sequential(Masked(nn.Linear(6, 3), LearnableBernoulli(6)))
    loss = ELBO(model, Categorical(), 9, estimator="trapezoid_once")(*data())
    with torch.no_grad():
        model[0].layer.weight.add_(1.0)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation"):
        loss.backward()
