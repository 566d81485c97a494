"""Bad input: each mistake is an error that says what was expected, what came, and what to do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dubio
from dubio.likelihoods import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian, Likelihood
from networks import build, mlp

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


def with_nan(row: int) -> Tensor:
    x = X.clone()
    x[row, 2] = float("nan")
    return x


@pytest.mark.parametrize("keep_draws", [True, False])
class TestBatch:
    @pytest.mark.parametrize(
        ("x", "message"),
        [
            (torch.ones(0, 6), r"at least one row, got shape \(0, 6\)"),
            ((torch.ones(0, 6),), r"at least one row, got shape \(0, 6\)"),
            (torch.tensor(1.0), r"at least one row, got shape \(\)"),
            (with_nan(3), r"got NaN in 1 of 24 entries, first in row 3"),
            ({"input": with_nan(2)}, r"got NaN in 1 of 24 entries, first in row 2"),
            (DataLoader(TensorDataset(with_nan(1)), batch_size=2), r"got NaN.*first in row 1"),
            (torch.ones(4, 6, device="meta"), r"on cpu, where the network is, got one on meta"),
        ],
    )
    def test_values(self, x: Any, message: str, keep_draws: bool) -> None:
        with pytest.raises(ValueError, match=f"x: expected.*{message}"):
            dubio.predict(mlp(), x, keep_draws=keep_draws)

    @pytest.mark.parametrize("x", [(), {}, 3, None, "abc", [1.0, 2.0], X.numpy()])
    def test_kinds(self, x: Any, keep_draws: bool) -> None:
        with pytest.raises(TypeError, match=r"x: expected a tensor, .*DataLoader"):
            dubio.predict(mlp(), x, keep_draws=keep_draws)

    def test_no_batches(self, keep_draws: bool) -> None:
        with pytest.raises(ValueError, match="x: expected at least one batch"):
            dubio.predict(mlp(), [], keep_draws=keep_draws)


def test_sites_check_the_batch_too() -> None:
    with pytest.raises(ValueError, match="NaN"):
        dubio.sites(mlp(), with_nan(0))
    with pytest.raises(ValueError, match="got one on meta"):
        dubio.sites(mlp(), torch.ones(4, 6, device="meta"))
    with pytest.raises(ValueError, match="at least one row"):
        dubio.sites(mlp(), torch.ones(0, 6))


def test_a_network_on_another_device() -> None:
    with pytest.raises(
        ValueError, match=r"on meta, where the network is, got one on cpu.*\.to\(\)"
    ):
        dubio.predict(mlp().to("meta"), X)


@pytest.mark.parametrize("draws", [0, -1, 1.5, True, None, "100"])
def test_draws(draws: Any) -> None:
    with pytest.raises(ValueError, match=r"draws: expected a positive int, got .*draws=100"):
        dubio.predict(mlp(), X, draws=draws)


@pytest.mark.parametrize("chunk", [0, -1, 1.5, True, "7"])
def test_chunk(chunk: Any) -> None:
    with pytest.raises(ValueError, match="chunk: expected a positive int or None, got"):
        dubio.predict(mlp(), X, chunk=chunk)


def test_integers_of_numpy_will_do() -> None:
    p = dubio.predict(mlp(), X, draws=np.int64(5), chunk=np.int64(2))  # type: ignore[arg-type]
    assert p.num_draws == 5


@pytest.mark.parametrize("generator", [0.5, True, "seed", torch.manual_seed])
def test_generator(generator: Any) -> None:
    with pytest.raises(
        TypeError, match=r"generator: expected a torch\.Generator.*manual_seed\(0\)"
    ):
        dubio.predict(mlp(), X, generator=generator)


@pytest.mark.parametrize("model", [3, None, {"net": mlp()}, [3]])
def test_model(model: Any) -> None:
    with pytest.raises(TypeError, match=r"model: expected an nn\.Module or a function"):
        dubio.predict(model, X)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("make", "culprit"),
    [
        (lambda: torch.jit.script(mlp()), "the network is compiled by TorchScript"),
        (lambda: torch.jit.trace(mlp().eval(), X), "the network is compiled by TorchScript"),
        (
            lambda: nn.Sequential(nn.Linear(6, 6), nn.Sequential(torch.jit.script(mlp()))),
            r"1\.0 is compiled by TorchScript",
        ),
    ],
    ids=["scripted", "traced", "nested"],
)
def test_scripted_modules(make: Callable[[], nn.Module], culprit: str) -> None:
    network = make()
    for call in (dubio.predict, dubio.sites):
        with pytest.raises(TypeError, match=rf"{culprit}.*pass the module it was scripted from"):
            call(network, X)  # type: ignore[operator]


@pytest.mark.parametrize(
    "likelihood", [Categorical, Gaussian, "categorical", 3, nn.CrossEntropyLoss()]
)
def test_likelihoods_are_instances(likelihood: Any) -> None:
    with pytest.raises(TypeError, match=r"likelihood: expected an instance .*Categorical\(\)"):
        dubio.predict(mlp(), X, likelihood=likelihood)


class Outputs(nn.Module):
    """Gives some of the columns of a dropout."""

    def __init__(self, columns: int | slice) -> None:
        super().__init__()
        self.drop, self.columns = nn.Dropout(0.5), columns

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(x)[:, self.columns]


@pytest.mark.parametrize("keep_draws", [True, False])
@pytest.mark.parametrize(
    ("likelihood", "columns", "message"),
    [
        (Categorical(), slice(0, 1), r"at least 2 classes.*use Bernoulli"),
        (Categorical(), 0, r"expected classes along dim=-1"),
        (Categorical(outputs="probabilities"), slice(None), r"sum to 1.*outputs='logits'"),
        (Bernoulli(outputs="probabilities"), slice(None), r"probabilities in \[0, 1\]"),
        (HeteroscedasticGaussian(), slice(0, 3), r"means and then log variances.*even number"),
        (Gaussian(torch.ones(2)), slice(0, 3), r"broadcasts to the event \(3,\)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Likelihood) else None,
)
def test_likelihoods_fit_the_output(
    likelihood: Likelihood, columns: int | slice, message: str, keep_draws: bool
) -> None:
    with pytest.raises(ValueError, match=message):
        dubio.predict(Outputs(columns), X, likelihood=likelihood, keep_draws=keep_draws)


@pytest.mark.parametrize("name", ["mlp", "data dependent"])
@pytest.mark.parametrize(
    ("reduce", "error", "message"),
    [
        (lambda y: y.argmax(-1), TypeError, r"floating-point output, got torch\.int64.*labels"),
        (lambda y: y > 0, TypeError, r"floating-point output, got torch\.bool"),
        (lambda y: y.sum(), ValueError, "one row per row of x, got a single number"),
        (lambda y: (y, y), TypeError, r"select: expected one tensor.*tuple of 2.*pass select="),
        (lambda y: {"a": y, "b": y}, TypeError, r"dict with keys \['a', 'b'\].*pass select="),
        (lambda y: y.tolist(), TypeError, "select: expected one tensor"),
        (lambda y: None, TypeError, r"select: expected one tensor.*NoneType"),
    ],
    ids=["labels", "flags", "number", "tuple", "dict", "list", "nothing"],
)
def test_outputs_are_one_row_of_floats_per_row(
    name: str, reduce: Callable[[Tensor], Any], error: type[Exception], message: str
) -> None:
    network, x = build(name)
    with pytest.raises(error, match=message):
        dubio.predict(lambda x: reduce(network(x)), x)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (lambda y: y.to_sparse(), r"a dense output, got a sparse_coo tensor.*y\.to_dense\(\)"),
        (lambda y: y.relu().to_sparse_csr(), r"a dense output, got a sparse_csr tensor"),
        (lambda y: torch.nested.as_nested_tensor([*y]), r"got a nested .*y\.to_padded_tensor"),
    ],
    ids=["sparse", "compressed", "nested"],
)
@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:The PyTorch API of nested")
def test_outputs_are_dense(wrap: Callable[[Tensor], Tensor], message: str, shared: bool) -> None:
    network, x = build("mlp")
    with pytest.raises(TypeError, match=message):
        dubio.predict(lambda x: wrap(network(x)), x, shared=shared)
    with pytest.raises(TypeError, match=message):
        dubio.Predictor(lambda x: wrap(network(x)), shared=shared)(x)


@pytest.mark.parametrize(
    ("wrap", "select", "message"),
    [
        (lambda y: {"scores": y, "hidden": y}, "logits", r"'logits'.*keys \['scores', 'hidden'\]"),
        (lambda y: {"scores": y}, 0, r"select=0.*keys \['scores'\]"),
        (lambda y: (y, y), 2, r"select=2.*tuple of 2 \(a tensor of shape \(4, 3\)"),
        (lambda y: (y, y), "scores", r"'scores'.*tuple of 2"),
        (lambda y: y, "scores", r"'scores'.*tensor of shape \(4, 3\)"),
    ],
)
def test_select_names_something_that_is_there(
    wrap: Callable[[Tensor], Any], select: Any, message: str
) -> None:
    network, x = build("mlp")
    with pytest.raises(KeyError, match=message):
        dubio.predict(lambda x: wrap(network(x)), x, select=select)


class TestNoSites:
    """Nothing to sample is an error, never a spread of zero."""

    @pytest.mark.parametrize(
        ("network", "words"),
        [
            (nn.Sequential(nn.Linear(6, 3), nn.ReLU()), ["Linear (1)", "ReLU (1)", "nn.Dropout"]),
            (
                nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.0)),
                ["Dropout (1)", "1 has a dropout rate of 0"],
            ),
            (
                nn.Sequential(nn.LSTM(6, 3, num_layers=1)),
                ["LSTM (1)", "only between layers", "single layer"],
            ),
            (
                nn.ModuleDict({"a": nn.Linear(6, 3), "unused": nn.Dropout(0.5)}),
                ["unused was not called"],
            ),
        ],
        ids=["none", "rate 0", "single layer", "not called"],
    )
    def test_what_was_looked_at_and_what_to_do(self, network: nn.Module, words: list[str]) -> None:
        root = FirstOf(network)
        with pytest.raises(dubio.NoSitesError) as error:
            dubio.predict(root, X)
        message = str(error.value)
        assert "no stochastic site was reached" in message
        for word in [*words, "Looked at", "Looked for", "What to do", "dubio.register"]:
            assert word.replace("1 has", "inner.1 has").replace("unused", "inner.unused") in message

    def test_a_function_is_looked_at_as_a_whole(self) -> None:
        with pytest.raises(dubio.NoSitesError, match="a function that is no nn"):
            dubio.predict(torch.sin, X)

    @pytest.mark.parametrize("branch", [False, True])
    def test_an_output_in_front_of_the_noise(self, branch: bool) -> None:
        class Branches(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.a, self.drop = nn.Linear(6, 3), nn.Dropout(0.5)

            def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
                h = self.a(x)
                y = self.drop(h)
                return h, (y if not branch or y.sum() > 0 else -y)

        with pytest.raises(dubio.NoSitesError, match=r"(?s)does not depend on .*drop .*select="):
            dubio.predict(Branches(), X, select=0)
        assert dubio.predict(Branches(), X, select=1).std.max() > 0


class FirstOf(nn.Module):
    """Calls the first of some modules."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        module = self.inner["a"] if isinstance(self.inner, nn.ModuleDict) else self.inner
        out = module(x)
        return out if isinstance(out, Tensor) else out[0]
