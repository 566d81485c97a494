"""Networks that write over their weights in forward: draws start alike, and one pass is left."""

from collections.abc import Callable
from types import MethodType

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dubio
from references import seeded

MANY = 2**22 + 1


def through_data(net: "Writing") -> None:
    net.b.weight.data.mul_(0.9)


def without_gradients(net: "Writing") -> None:
    with torch.no_grad():
        net.b.weight.mul_(0.9)


def other_data(net: "Writing") -> None:
    net.b.weight.data = 0.9 * net.b.weight.data


def another_parameter(net: "Writing") -> None:
    net.b.weight = nn.Parameter(0.9 * net.b.weight.detach())


def a_large_buffer(net: "Writing") -> None:
    net.scale.mul_(0.9)


WAYS = [through_data, without_gradients, other_data, another_parameter, a_large_buffer]


class Writing(nn.Module):
    """Writes over what it has, in every pass."""

    scale: Tensor

    def __init__(self, write: Callable[["Writing"], None]) -> None:
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(4, 8), nn.Linear(8, 2), nn.Dropout(0.5)
        self.register_buffer("scale", torch.ones(MANY if write is a_large_buffer else 1))
        self.write = write

    def forward(self, x: Tensor) -> Tensor:
        self.write(self)
        h: Tensor = self.b(self.drop(torch.relu(self.a(x))))
        return h * self.scale[0]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("write", WAYS, ids=lambda way: way.__name__)
@pytest.mark.filterwarnings("ignore")
def test_draws_start_alike_and_leave_the_state_of_one_pass(
    write: Callable[[Writing], None], shared: bool
) -> None:
    torch.manual_seed(0)
    net = Writing(write).eval()
    x = torch.randn(6, 4, generator=seeded())
    weight, scale = net.b.weight.detach().clone(), net.scale.clone()
    noise = dubio.Noise(draws=4, shared=shared, generator=seeded())
    found = dubio.predict(net, x, draws=4, shared=shared, generator=seeded()).draws
    left = net.b.weight.detach().clone(), net.scale.clone()
    for k in range(4):
        net.b.weight = nn.Parameter(weight.clone())
        net.scale.copy_(scale)
        with noise[k], torch.no_grad():
            expected = net(x)
        torch.testing.assert_close(found[k], expected)
    torch.testing.assert_close(left, (net.b.weight.detach(), net.scale), rtol=0, atol=0)


def test_a_forward_that_was_set_on_a_layer_sees_the_drawn_weights() -> None:
    layer = nn.Linear(3, 2)
    plain = dubio.Bayesian(nn.Linear(3, 2), deviation=0.5)
    plain.layer.load_state_dict(layer.state_dict())
    layer.forward = MethodType(  # type: ignore[method-assign]
        lambda self, x: 2 * F.linear(x, self.weight, self.bias), layer
    )
    doubled = dubio.Bayesian(layer, deviation=0.5)
    x = torch.randn(4, 3, generator=seeded())
    with dubio.Noise(generator=seeded())[0]:
        one = plain(x)
    with dubio.Noise(generator=seeded())[0]:
        two = doubled(x)
    torch.testing.assert_close(two, 2 * one)


def test_a_forward_that_may_use_other_weights_is_refused() -> None:
    layer = nn.Linear(3, 2)
    weight = layer.weight
    layer.forward = lambda x: F.linear(x, weight)  # type: ignore[method-assign, assignment]
    bayesian = dubio.Bayesian(layer)
    with (
        dubio.Noise(generator=seeded())[0],
        pytest.raises(ValueError, match=r"expected a Linear with the forward of its class"),
    ):
        bayesian(torch.ones(4, 3))


class Counting(nn.Module):
    """Counts its passes; its second dropout cannot be placed at first sight."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop = nn.Linear(4, 4), nn.Dropout(0.5)
        self.passes = 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        return self.drop(self.a(x)) + self.drop(x.new_tensor(x.sum(1, keepdim=True).tolist()))


def test_looking_for_rows_out_of_turn_is_no_pass() -> None:
    net = Counting().eval()
    with dubio.Noise(shared=True, generator=seeded())[0]:
        try:
            net(torch.randn(5, 4, generator=seeded()))
        except ValueError as error:
            assert "batch_axis" in str(error)  # noqa: PT017
    assert net.passes == 1


class Quiet(nn.Dropout):
    """A dropout without a rate, and noise of its own."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5)


def test_a_dropout_without_a_rate_may_still_be_noisy() -> None:
    mask = dubio.masks.LearnableBernoulli(3, drop=0.5)
    net = nn.Sequential(nn.Linear(3, 3), Quiet(0.0), dubio.Masked(nn.Linear(3, 1), mask)).train()
    x, y = torch.randn(5, 3, generator=seeded()), torch.zeros(5, 1)
    losses = set()
    for _ in range(3):
        elbo = dubio.ELBO(net, dubio.likelihoods.Gaussian(1.0), num_data=5, generator=seeded())
        losses.add(float(elbo(x, y).detach()))
    assert len(losses) == 1  # the noise of the subclass comes from the generator, too
