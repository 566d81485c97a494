"""Where rows are at a site: fixed batch sizes, tensors that no input leads to, what users say."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dubio
from one_function_networks import CASES, D, Reads, T

ROWS = 6


def functions(network: Callable[..., Tensor], x: Any, draws: int = 6, **options: Any) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    options = {"shared": True, **options}
    return dubio.predict(network, x, draws=draws, generator=generator, **options).draws


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(("cut", "packed"))])
def test_one_row_alone_has_the_noise_of_a_row(name: str) -> None:
    """What is merged with rows has noise of its own, as it has where rows do not share any."""
    torch.manual_seed(0)
    network, x = CASES[name].make().eval(), CASES[name].inputs(1)
    if name != "experts":  # whose shapes depend on values
        assert torch.equal(functions(network, x), functions(network, x, shared=False))


@pytest.mark.parametrize("name", CASES)
def test_spread_of_rows_is_that_of_a_row_alone(name: str) -> None:
    """Variances of 2,000 draws: their ratio is off by more than 25 % once in 10⁶ if normal."""
    torch.manual_seed(0)
    network, x = CASES[name].make().eval(), CASES[name].inputs(4)
    one = x[2:3] if isinstance(x, Tensor) else (x[0][2:3], {"shift": x[1]["shift"][2:3]}, x[2])
    together = functions(network, x, draws=2000)[:, 2].var(0).sum()
    alone = (
        dubio.predict(network, one, draws=2000, generator=torch.Generator().manual_seed(4))
        .draws[:, 0]
        .var(0)
        .sum()
    )
    assert 0.75 < together / alone < 1.33


class FixedReshape(Reads):
    """The batch size is a constant of the code."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.drop(torch.tanh(self.a(x)).transpose(0, 1).reshape(T * ROWS, 8))
        return self.b(h.view(T, ROWS, 8).mean(0))


class FixedBuffer(Reads):
    """A buffer has a row for each row of the batch, on the second axis."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.randn(T, ROWS, 8))

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.drop(torch.tanh(self.a(x)).transpose(0, 1) + self.shift).mean(0))


class Stateful(Reads):
    """An LSTM that starts where it was, in a state of a fixed number of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(D, 8, 2, dropout=0.5)
        self.register_buffer("state", torch.randn(2, ROWS, 8))

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.rnn(x.transpose(0, 1), (self.state, self.state))
        return self.b(self.drop(out)[-1])


@pytest.mark.parametrize("kind", [FixedReshape, FixedBuffer, Stateful])
def test_fixed_batch_size(kind: type[nn.Module]) -> None:
    """Rows that are equal, also in the buffers, have equal outputs in every draw."""
    torch.manual_seed(0)
    network = kind().eval()
    for buffer in network.buffers():
        buffer.copy_(buffer[:, :1].clone().expand_as(buffer))
    x = torch.randn(1, T, D).expand(ROWS, -1, -1).clone()
    draws = functions(network, x)
    assert draws.std(0).max() > 1e-3
    torch.testing.assert_close(draws, draws[:, :1].expand_as(draws))
    other = torch.randn(ROWS, T, D)
    other[3] = x[0]
    torch.testing.assert_close(functions(network, other)[:, 3], draws[:, 0])


class NoisyState(Reads):
    """Dropout of a state that nothing but its length connects with the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.ones(2, ROWS, 8))

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x)).mean(1) + self.drop(self.state).mean(0))


@pytest.mark.parametrize("context", [False, True])
def test_what_cannot_be_found_out_is_an_error(context: bool) -> None:
    network, x = NoisyState().eval(), torch.randn(1, T, D).expand(ROWS, -1, -1).clone()
    noise = {"shared": True, "generator": torch.Generator().manual_seed(3)}

    def outputs(**options: Any) -> Tensor:
        if not context:
            return functions(network, x, **options)
        with torch.no_grad(), dubio.Noise(**noise, **options):  # type: ignore[arg-type]
            return network(x)[None]

    with pytest.raises(
        ValueError, match=r"expected to find the 6 rows .* \(2, 6, 8\) .*batch_axis"
    ):
        outputs()
    same = outputs(batch_axis={"*rop*": 1})
    torch.testing.assert_close(same, same[:, :1].expand_as(same))
    differ = outputs(batch_axis={"*rop*": None})
    assert (differ[:, 0] != differ[:, 1]).any()
    with pytest.raises(ValueError, match=r"batch_axis.*: expected an axis whose length is 6"):
        outputs(batch_axis={"*rop*": 2})
    with pytest.raises(TypeError, match="batch_axis: expected a dict"):
        outputs(batch_axis=1)


WEIGHTS: dict[str, Callable[[Any], Tensor]] = {  # (8, 6)
    "a weight": lambda net: net.a.weight,
    "transposed": lambda net: net.a.weight.T.clone().T,
    "scaled": lambda net: net.a.weight * 2,
    "a product": lambda net: net.a.weight @ net.square,
    "a constant": lambda net: torch.ones(8, D),
    "a buffer": lambda net: net.state[:, :D],
    "looked up": lambda net: net.a.weight[torch.arange(8)],
    "parametrised": lambda net: net.normed.weight,
}


class DropsWeights(Reads):
    """Dropout of what has no rows, though it may be as long as the batch."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.weight, self.square = WEIGHTS[name], nn.Parameter(torch.randn(D, D))
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(D, 8))
        self.register_buffer("state", torch.randn(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        return self.b(F.linear(x, self.drop(self.weight(self))).mean(1))


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("rows", [2, 3, D, 8])
def test_weights_have_noise_of_their_own(name: str, rows: int) -> None:
    """All of their entries have, as where rows do not share noise."""
    torch.manual_seed(0)
    network, x = DropsWeights(name).eval(), torch.randn(rows, T, D)
    expected = functions(network, x, shared=False)
    torch.testing.assert_close(functions(network, x), expected)
    with (
        torch.no_grad(),
        dubio.Noise(6, shared=True, generator=torch.Generator().manual_seed(3))[5],
    ):
        torch.testing.assert_close(network(x), expected[5])


MADE_OTHERWISE: dict[str, Callable[[int], Tensor]] = {
    "two for each row": lambda rows: torch.ones(2 * rows, 8),
    "one more": lambda rows: torch.ones(rows + 1, 8),
    "one for each pair": lambda rows: torch.ones(rows, rows, 8),
}


class Makes(Reads):
    """Dropout of a tensor of which nobody knows what belongs to which row."""

    def __init__(self, make: Callable[[int], Tensor]) -> None:
        super().__init__()
        self.make = make

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x)).mean(1) + self.drop(self.make(len(x)))[: len(x)].sum())


@pytest.mark.parametrize("name", MADE_OTHERWISE)
@pytest.mark.parametrize("context", [False, True])
def test_a_tensor_that_grows_otherwise_is_an_error(name: str, context: bool) -> None:
    network, x = Makes(MADE_OTHERWISE[name]).eval(), torch.randn(ROWS, T, D)
    noise = dubio.Noise(shared=True) if context else nullcontext()
    call = network if context else partial(functions, network)
    with pytest.raises(ValueError, match=r"to find the .* rows .*batch_axis"), noise:
        call(x)


def test_an_input_that_is_a_parameter() -> None:
    """It is the batch, and no weight."""
    network, x = nn.Sequential(nn.Dropout(0.5), nn.Linear(D, 3)), nn.Parameter(torch.ones(ROWS, D))
    with torch.no_grad(), dubio.Noise(shared=True, generator=torch.Generator().manual_seed(3)):
        y = network(x)
    torch.testing.assert_close(y, y[:1].expand_as(y))


def test_what_users_say_of_merged_rows() -> None:
    """The entries of one row lie together."""
    torch.manual_seed(0)
    network = CASES["rows first"].make().eval()
    x = torch.randn(5, T, D)
    torch.testing.assert_close(functions(network, x, batch_axis={"drop": 0}), functions(network, x))


class CutFromTheLeft(Reads):
    """Sequences padded at their beginning: the noise would move with the longest one."""

    def forward(self, x: Tensor) -> Tensor:
        there = x[..., 0] != 0
        longest = int(there.sum(1).max())
        h, there = self.drop(torch.tanh(self.a(x[:, -longest:]))), there[:, -longest:]
        return self.b((h * there[..., None]).sum(1))


def test_noise_that_moves_is_an_error() -> None:
    lengths = 1 + torch.arange(ROWS) % T
    x = (torch.rand(ROWS, T, D) + 0.1) * (torch.arange(T) >= T - lengths[:, None])[..., None]
    with pytest.raises(ValueError, match=r"one function of each row.*pad sequences at their end"):
        functions(CutFromTheLeft().eval(), x)
    functions(CutFromTheLeft().eval(), torch.rand(ROWS, T, D) + 0.1)  # all of one length


class OneByOne(Reads):
    """Every row has a dropout of its own: no draw is one function of a row."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.drop(torch.tanh(self.a(part))).mean(1) for part in x.split(self.size)]
        return self.b(torch.cat(parts))


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("rows", [2, 3, 4, 7])
def test_rows_one_by_one_are_an_error(size: int, rows: int) -> None:
    network, x = OneByOne(size).eval(), torch.randn(rows, T, D)
    if rows <= size:
        functions(network, x)
        return
    with pytest.raises(ValueError, match=r"must take them at once"):
        functions(network, x)
    with pytest.raises(ValueError, match=r"must take them at once"), dubio.Noise(shared=True):
        network(x)


class Prototypes(Reads):
    """Distances to tensors that are no rows, and may be as many as the rows."""

    def forward(self, x: Tensor, prototypes: Tensor) -> Tensor:
        return self.a(x) @ self.drop(self.a(prototypes)).T


def test_an_input_that_is_as_long_as_the_batch_by_chance() -> None:
    network, x, prototypes = Prototypes().eval(), torch.randn(4, D), torch.randn(4, D)
    with pytest.raises(ValueError, match=r"into a function around"):
        functions(network, (x, prototypes))
    all_rows = functions(lambda x: network(x, prototypes), x)
    torch.testing.assert_close(functions(network, (x[:3], prototypes)), all_rows[:, :3])


def test_rows_that_meet() -> None:
    """Statistics of the batch leave rows where they were."""
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(8, track_running_stats=False)
    network = nn.Sequential(nn.Linear(D, 8), norm, nn.Dropout(0.5), nn.Linear(8, 3)).eval()
    x = torch.randn(ROWS, D)
    x[1] = x[0]
    draws = functions(network, x)
    torch.testing.assert_close(draws[:, 0], draws[:, 1])


class Gate(nn.Module):
    """A noise module of a user."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Registered(Reads):
    """It acts on (T·B, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    def forward(self, x: Tensor) -> Tensor:
        h = self.gate(torch.tanh(self.a(x)).transpose(0, 1).reshape(-1, 8))
        return self.b(h.view(T, -1, 8).mean(0))


@pytest.mark.parametrize("wide", [False, True])
def test_registered_modules(wide: bool) -> None:
    def sample(module: Gate, noise: Any, x: Tensor) -> Tensor:
        return x * noise.normal(*x.shape) if wide else x * noise.bernoulli(0.5, len(x), 1)

    dubio.register(Gate, sample)
    torch.manual_seed(0)
    network, x = Registered().eval(), torch.randn(5, T, D)
    together = functions(network, x)
    for row in range(5):
        torch.testing.assert_close(functions(network, x[[row]])[:, 0], together[:, row])


class _Members(Reads):
    def __init__(self) -> None:
        super().__init__()
        self.masked = dubio.Masked(nn.Linear(8, 8), dubio.masks.Concrete())

    def forward(self, x: Tensor) -> Tensor:
        h = F.dropout(torch.tanh(self.a(x)).transpose(0, 1).reshape(-1, 8), 0.5)
        return self.b(self.masked(h).view(T, -1, 8).mean(0))


@pytest.mark.parametrize("kind", [_Members, CASES["learned queries"].make])
def test_population(kind: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    likelihood = dubio.likelihoods.Gaussian(1.0)
    members = [dubio.ELBO(kind(), likelihood, num_data=5) for _ in range(2)]
    x = torch.randn(1, T, D).expand(5, -1, -1).clone()
    for predictive in dubio.Population(members).predict(x, draws=8, shared=True):
        draws = predictive.draws
        torch.testing.assert_close(draws, draws[:, :1].expand_as(draws))


@pytest.mark.parametrize("kind", [_Members, CASES["learned queries"].make])
def test_objective(kind: Callable[[], nn.Module]) -> None:
    """Rows that are equal have equal losses under shared noise."""
    torch.manual_seed(0)
    elbo = dubio.ELBO(kind(), dubio.likelihoods.Gaussian(1.0), num_data=5, shared=True)
    seen: list[Tensor] = []
    elbo.model.register_forward_hook(lambda module, inputs, output: seen.append(output))
    elbo(torch.randn(1, T, D).expand(5, -1, -1).clone(), torch.zeros(5, 3))
    torch.testing.assert_close(seen[-1], seen[-1][:1].expand_as(seen[-1]))


def test_all_is_as_before() -> None:
    """The passes that look leave nothing behind."""
    network = nn.Sequential(nn.Linear(D, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    state = torch.get_rng_state()
    functions(network.train(), torch.randn(ROWS, D, generator=torch.Generator().manual_seed(0)))
    assert network.training
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])
