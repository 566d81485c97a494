"""`torch.compile` before or around an objective: the numbers of eager code, and fresh noise."""

import os
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio.likelihoods import Categorical

if not os.environ.get("DUBIO_LONG_TESTS"):
    pytest.skip("compiles for a minute: run `make bridges`", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings(  # of what torch's compiler does itself
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning",
    "ignore:.*should not be instantiated. Methods on autograd:DeprecationWarning",
)
ROWS = 8


def masked(mask: dubio.masks.Mask) -> nn.Module:
    return dubio.Masked(nn.Linear(5, 3), mask)


def pruned() -> nn.Module:
    layer = dubio.BayesLinear(5, 3, deviation=0.3)
    dubio.prune(layer, 0.4)
    return layer


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "dropout": lambda: nn.Sequential(nn.Dropout(0.4), nn.Linear(5, 3)),
    "concrete": lambda: masked(dubio.masks.Concrete(5, drop=0.4)),
    "learnable-bernoulli": lambda: masked(dubio.masks.LearnableBernoulli(5, drop=0.4)),
    "bayes": lambda: dubio.BayesLinear(5, 3, deviation=0.3),
    "bayes-local": lambda: dubio.BayesLinear(5, 3, deviation=0.3, sampler="local"),
    "bayes-pruned": pruned,
}


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    yield
    torch.compiler.reset()


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), LAYERS[name]())


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, 4, generator=generator)
    return x, torch.randint(3, (ROWS,), generator=generator)


def steps(
    loss: Callable[[Tensor, Tensor], Tensor], net: nn.Module
) -> list[tuple[Tensor, list[Tensor]]]:
    """Losses and gradients of two steps from one seed."""
    torch.manual_seed(2)
    found = []
    for _ in range(2):
        value = loss(*data())
        gradients = torch.autograd.grad(value, list(net.parameters()))
        found.append((value.detach(), list(gradients)))
    return found


def objective(net: nn.Module) -> dubio.ELBO:
    return dubio.ELBO(net, Categorical(), num_data=ROWS)


@pytest.mark.parametrize("what", ["objective", "network", "trunk"])
@pytest.mark.parametrize("name", ["dropout", "learnable-bernoulli", "bayes"])
def test_an_objective_has_the_loss_and_gradients_of_eager_code(name: str, what: str) -> None:
    net = build(name)
    expected = steps(objective(net), net)
    match what:
        case "objective":
            loss = torch.compile(objective(net), backend="eager")
        case "network":
            loss = objective(torch.compile(net, backend="eager"))
        case _:
            loss = objective(nn.Sequential(torch.compile(net[:2], backend="eager"), net[2]))
    found = steps(loss, net)
    torch.testing.assert_close(found, expected)
    assert found[0][0] != found[1][0]


@pytest.mark.parametrize("name", LAYERS)
def test_a_loss_of_ones_own_has_the_numbers_of_eager_code(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In train mode, outside of an objective: the noise is part of the graph, and drawn anew.

    A graph has torch's own numbers, as eager code has without the kernels.
    """
    monkeypatch.setattr("dubio.noise.stochastic.serves", lambda x: False)
    net = build(name)
    stochastic = any(isinstance(module, dubio.Stochastic) for module in net.modules())

    def loss(x: Tensor, y: Tensor) -> Tensor:
        fit = nn.functional.cross_entropy(net(x), y)
        return fit + dubio.kl(net) / ROWS if stochastic else fit

    expected = steps(loss, net)
    found = steps(torch.compile(loss, backend="aot_eager"), net)
    torch.testing.assert_close(found, expected)
    assert found[0][0] != found[1][0]


@pytest.mark.parametrize("name", ["dropout", "learnable-bernoulli", "bayes"])
def test_predictions_are_those_of_the_network_that_was_compiled(name: str) -> None:
    net, (x, _) = build(name), data()
    expected = dubio.predict(net, x, draws=4, generator=0).draws
    compiled = torch.compile(net, backend="eager")
    compiled(x)
    assert torch.equal(dubio.predict(compiled, x, draws=4, generator=0).draws, expected)


def test_fit_takes_a_compiled_objective_for_the_one_behind_it() -> None:
    x, y = data()
    states = []
    for compiled in (False, True):
        elbo = objective(build("concrete"))
        torch.manual_seed(3)
        fitted = torch.compile(elbo, backend="eager") if compiled else elbo
        dubio.fit(fitted, (x, y), epochs=2, batch_size=4)
        states.append(elbo.state_dict())
        assert elbo.step == 4
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value)


def test_fit_knows_the_rows_of_a_compiled_objective() -> None:
    elbo = dubio.ELBO(build("concrete"), Categorical(), num_data=ROWS + 1)
    with pytest.raises(ValueError, match=f"expected {ROWS}, the rows of the data"):
        dubio.fit(torch.compile(elbo, backend="eager"), data(), epochs=1)
