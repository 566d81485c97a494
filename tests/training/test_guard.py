"""The guard names epoch, step and site, and leaves the last good state behind."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dubio
from dubio.likelihoods import Categorical, Gaussian
from snapshots import snapshot


class Poison(nn.Module):
    """Passes tensors on until its count-th call, when it makes a number that is not finite."""

    def __init__(self, count: int, value: float = float("nan")) -> None:
        super().__init__()
        self.left = count
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        self.left -= 1
        return x * self.value if self.left <= 0 else x


class Loss(nn.Module):
    """Squared error of a network; with ``power`` the network's own outputs raised to it."""

    def __init__(self, *layers: nn.Module, power: float | None = None) -> None:
        super().__init__()
        self.net = nn.Sequential(*layers)
        self.power = power

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        f = self.net(x)
        return F.mse_loss(f, y) if self.power is None else f.pow(self.power).mean()


def rows(count: int = 24) -> tuple[Tensor, Tensor]:
    x = torch.randn(count, 3, generator=torch.Generator().manual_seed(1))
    return x, x.sum(1, keepdim=True)


def fit_and_fail(objective: nn.Module, data: Any, **options: Any) -> dubio.NonFiniteError:
    with pytest.raises(dubio.NonFiniteError) as caught:
        dubio.fit(objective, data, **{"epochs": 5, **options})
    return caught.value


def where(error: dubio.NonFiniteError) -> tuple[int, int, str]:
    return error.epoch, error.step, error.site


def in_order(x: Tensor, y: Tensor, size: int) -> DataLoader[Any]:
    return DataLoader(TensorDataset(x, y), size, generator=torch.Generator())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_it_names_the_first_module_whose_output_is_bad(value: float) -> None:
    torch.manual_seed(0)
    objective = Loss(nn.Linear(3, 4), nn.Dropout(0.2), Poison(9, value), nn.Tanh(), nn.Linear(4, 1))
    if abs(value) == float("inf"):
        objective.net[3] = nn.Identity()  # tanh would make it finite again
    error = fit_and_fail(objective, rows(), batch_size=4)
    assert where(error) == (2, 3, "net.2")
    assert (
        "is not finite in epoch 2, step 3. It is first seen in the output of 'net.2' (Poison)"
        in (str(error))
    )
    assert "try a smaller learning rate" in str(error)


def test_it_tells_an_input_that_was_bad_before_from_the_module() -> None:
    class Between(Loss):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.net[1](self.net[0](x) / 0.0).mean()

    error = fit_and_fail(Between(nn.Linear(3, 4), nn.Linear(4, 1)), rows())
    assert where(error) == (1, 1, "net.1")
    assert "output of 'net.1' (Linear), whose input was not finite either" in str(error)


def test_it_names_the_noise_that_was_the_reason() -> None:
    """Only some masks give NaN, so the step must be repeated under the very same noise."""

    class Inverse(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            kept = (x != 0).sum(1, keepdim=True)
            return x.sum(1, keepdim=True) / kept  # 0/0 if all four units are dropped

    for seed in range(5):
        torch.manual_seed(seed)
        objective = Loss(nn.Linear(3, 4), nn.Dropout(0.6), Inverse())
        error = fit_and_fail(objective, rows(4), epochs=10_000)
        assert error.site == "net.2"


def test_elbos_are_repeated_under_the_same_noise() -> None:
    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x - 0.3).sqrt()  # NaN if all four units are dropped

    torch.manual_seed(0)
    for kind in (dubio.masks.Concrete, dubio.masks.LearnableBernoulli):
        masked = dubio.Masked(nn.Linear(4, 1), kind(4, drop=0.3))
        nn.init.constant_(masked.layer.weight, 0.25)
        nn.init.zeros_(masked.layer.bias)
        net = nn.Sequential(masked, Root())
        objective = dubio.ELBO(net, Gaussian(1.0), 40, generator=torch.Generator().manual_seed(3))
        slow = partial(torch.optim.SGD, lr=1e-9)
        data = torch.ones(40, 4), torch.ones(40, 1)
        error = fit_and_fail(objective, data, epochs=200, batch_size=4, optimizer=slow)
        assert error.site == "model.1"
        assert (error.epoch, error.step) != (1, 1)


def test_it_names_bad_data() -> None:
    x, y = rows(40)
    x[4 * 6 + 2, 1] = float("nan")
    objective = Loss(nn.Linear(3, 1))
    error = fit_and_fail(objective, in_order(x, y, 4))
    assert where(error) == (1, 7, "x")
    assert "x holds NaN in row 2 of the batch" in str(error)
    assert "Drop or impute such rows" in str(error)
    error = fit_and_fail(objective, (x, y), batch_size=4)
    assert error.site == "x"
    assert "x holds NaN in row 26 of the data" in str(error)
    error = fit_and_fail(_Named(), ({"a": rows(40)[0], "b": x}, y), batch_size=4)
    assert "x['b'] holds NaN in row 26 of the data" in str(error)
    good, y[3] = rows(40)[0], float("inf")
    error = fit_and_fail(objective, (good, y))
    assert error.site == "y"
    assert "y holds an infinite number in row 3 of the data" in str(error)


class _Named(Loss):
    def __init__(self) -> None:
        super().__init__(nn.Linear(3, 1))

    def forward(self, x: dict[str, Tensor], y: Tensor) -> Tensor:  # type: ignore[override]
        return F.mse_loss(self.net(x["a"] + x["b"]), y)


def test_targets_that_a_likelihood_refuses_have_their_step_named() -> None:
    x, y = rows(40)
    y[4 * 6] = float("nan")
    masked = dubio.Masked(nn.Linear(3, 1), dubio.masks.Bernoulli(drop=0.1))
    objective = dubio.ELBO(masked, Gaussian(1.0), 40)
    with pytest.raises(ValueError, match="y: expected numbers, got NaN") as caught:
        dubio.fit(objective, in_order(x, y, 4), epochs=1)
    assert caught.value.__notes__ == ["dubio.fit was in epoch 1, step 7."]


def test_it_names_weights_that_were_bad_before() -> None:
    objective = Loss(nn.Linear(3, 4), nn.Linear(4, 1))
    with torch.no_grad():
        objective.net[1].weight[0, 2] = float("nan")
    error = fit_and_fail(objective, rows())
    assert where(error) == (1, 1, "net.1.weight")
    assert "Parameter 'net.1.weight' was not finite even before" in str(error)


def test_it_names_the_gradient_of_a_parameter() -> None:
    class Scaled(Loss):
        def __init__(self) -> None:
            super().__init__(nn.Linear(3, 1))
            self.scale = nn.Parameter(torch.zeros(1))

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return F.mse_loss(self.net(x), y) + self.scale.sqrt().sum()

    error = fit_and_fail(Scaled(), rows())
    assert where(error) == (1, 1, "scale")
    assert (
        "a gradient is not finite in epoch 1, step 1. On the way back it is first seen in the "
        in (str(error))
    )
    assert "gradient of parameter 'scale'" in str(error)
    assert "division at zero" in str(error)


def test_it_names_the_module_behind_which_a_gradient_is_bad() -> None:
    """The root of zero is finite and its slope is not; every earlier gradient is bad as well."""
    objective = Loss(nn.Linear(3, 4), nn.Linear(4, 4), power=0.5)
    for parameter in objective.net[1].parameters():
        nn.init.zeros_(parameter)
    error = fit_and_fail(objective, rows())
    assert where(error) == (1, 1, "net.1")
    assert "gradient of the output of 'net.1' (Linear)" in str(error)


@pytest.mark.parametrize("part", ["kl", "likelihood", "loss"])
def test_it_tells_kl_from_likelihood_and_loss(part: str) -> None:
    torch.manual_seed(0)
    masked = dubio.Masked(nn.Linear(3, 2), dubio.masks.Bernoulli(drop=0.5))
    net = nn.Sequential(nn.Identity(), masked)
    x, _ = rows()
    objective: nn.Module = dubio.ELBO(net, Categorical(), 24)
    if part == "kl":
        masked.length_scale = 1e20
        finding = "not the KL of 'model.1'"
    elif part == "likelihood":
        objective = dubio.ELBO(net, Gaussian(1.0), 24)
        finding = "not their log-likelihood"
        error = fit_and_fail(objective, (x, torch.full((24, 2), 1e30)))
    else:
        objective = Loss(nn.Linear(3, 2), power=-1.0)
        nn.init.zeros_(objective.net[0].weight)
        nn.init.zeros_(objective.net[0].bias)
        finding = "not the loss made of them"
    if part != "likelihood":
        error = fit_and_fail(objective, (x, torch.zeros(24, dtype=torch.long)))
    assert where(error) == (1, 1, part)
    assert f"All outputs are finite, but {finding}" in str(error)


def test_noise_that_does_not_come_again_is_admitted() -> None:
    calls = iter([1.0, 1.0, float("nan"), 1.0])

    class Whim(Loss):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return F.mse_loss(self.net(x), y) * next(calls)

    error = fit_and_fail(Whim(nn.Linear(3, 1)), rows(), batch_size=4)
    assert where(error) == (1, 3, "loss")
    assert "Done again, the same step gave finite numbers" in str(error)


def test_the_last_good_state_is_left_behind() -> None:
    """Weights, running statistics, hooks and random state are those before the bad step."""

    def objective(fails: bool) -> nn.Module:
        torch.manual_seed(0)
        return Loss(
            nn.Linear(3, 4),
            Poison(5 if fails else 1000),
            nn.BatchNorm1d(4),
            nn.Dropout(0.3),
            nn.Linear(4, 1),
        )

    x, y = rows()
    bad, good = objective(True), objective(False)
    torch.manual_seed(7)
    fit_and_fail(bad, in_order(x, y, 4))
    after = torch.get_rng_state()
    torch.manual_seed(7)
    dubio.fit(good, in_order(x[:16], y[:16], 4), epochs=1)
    assert torch.equal(after, torch.get_rng_state())
    for name, value in good.state_dict().items():
        assert torch.equal(value, bad.state_dict()[name]), name
    assert all(parameter.grad is None for parameter in bad.parameters())
    for module in bad.modules():
        assert not module._forward_hooks
        assert not module._forward_hooks_with_kwargs
    assert not any(parameter._backward_hooks for parameter in bad.parameters())


def test_gradients_that_are_large_but_finite_are_no_reason_to_stop() -> None:
    """Their sum overflows, and the guard looks again."""

    class Steep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(4))

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return (self.weight * 3e38).sum()

    objective = Steep()
    dubio.fit(objective, rows(), epochs=1, optimizer=partial(torch.optim.SGD, lr=1e-38))
    assert objective.weight.isfinite().all()
    assert (objective.weight != 0).all()


def test_nothing_is_hooked_while_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    hooked: list[Callable[..., Any]] = []
    monkeypatch.setattr(nn.Module, "register_forward_hook", lambda *a, **k: hooked.append(a))
    objective = Loss(nn.Linear(3, 1))
    attributes = snapshot(objective).attributes
    dubio.fit(objective, rows(), epochs=2)
    assert not hooked
    assert snapshot(objective).attributes.keys() == attributes.keys()
