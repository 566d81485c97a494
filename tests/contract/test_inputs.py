"""What goes in and what comes out: batches, loaders, and selected outputs."""

from collections import UserDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import dubio
from networks import build, mlp
from references import seeded


class TwoInputs(nn.Module):
    """Takes two tensors and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(6, 3), nn.Linear(4, 3), nn.Dropout(0.5)

    def forward(self, x: Tensor, z: Tensor, scale: float = 1.0) -> Tensor:
        return scale * self.drop(self.a(x) + self.b(z))


class Rows(Dataset[dict[str, Tensor]]):
    """Rows of named tensors."""

    def __init__(self, **columns: Tensor) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: column[index] for name, column in self.columns.items()}


@dataclass
class Answer:
    """An output as many libraries have it."""

    scores: Tensor
    hidden: Tensor
    loss: Tensor | None = None


class Pair(NamedTuple):
    """A named tuple."""

    scores: Tensor
    hidden: Tensor


class Wrapped(nn.Module):
    """An mlp whose output is wrapped somehow."""

    def __init__(self, wrap: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.inner, self.wrap = mlp(), wrap

    def forward(self, x: Tensor) -> Any:
        y = self.inner(x)
        return self.wrap(y, 2 * y)


def two_inputs() -> tuple[TwoInputs, Tensor, Tensor]:
    torch.manual_seed(0)
    return TwoInputs().eval(), torch.randn(7, 6), torch.randn(7, 4)


def draws_of(model: nn.Module, x: Any, **options: Any) -> Tensor:
    return dubio.predict(model, x, draws=3, generator=seeded(), **options).draws


class TestBatches:
    def test_tuples_are_arguments_and_dicts_named_ones(self) -> None:
        network, x, z = two_inputs()
        expected = draws_of(network, (x, z))
        assert expected.shape == (3, 7, 3)
        batches = [((x[:4], z[:4]), "a target"), ((x[4:], z[4:]), "another")]
        assert draws_of(network, batches).shape == expected.shape
        assert torch.equal(draws_of(network, {"x": x, "z": z}), expected)
        assert torch.equal(draws_of(network, {"z": z, "x": x}), expected)
        assert torch.equal(draws_of(network, UserDict(x=x, z=z)), expected)  # type: ignore[arg-type]
        assert torch.equal(draws_of(network, (x, z, 2.0)), 2 * expected)
        assert torch.equal(draws_of(network, {"x": x, "z": z, "scale": 2.0}), 2 * expected)

    def test_a_tensor_and_a_tuple_of_one_are_the_same(self) -> None:
        network, x = build("mlp")
        assert torch.equal(draws_of(network, (x,)), draws_of(network, x))

    def test_shared_draws_of_several_inputs_are_one_function(self) -> None:
        network, x, z = two_inputs()
        functions = draws_of(network, (x, z), shared=True)
        for rows in (1, 3, 4):  # three outputs, four inputs
            part = draws_of(network, {"x": x[:rows], "z": z[:rows]}, shared=True)
            torch.testing.assert_close(part, functions[:, :rows])

    def test_integer_inputs_are_welcome(self) -> None:
        network = nn.Sequential(nn.Embedding(10, 6), nn.Dropout(0.5), nn.Flatten())
        assert draws_of(network, torch.arange(8).view(4, 2)).shape == (3, 4, 12)


class TestLoaders:
    """With shared noise a loader's draws are those of all rows at once."""

    @pytest.mark.parametrize(
        "loader",
        [
            lambda x: DataLoader(TensorDataset(x), batch_size=3),
            lambda x: DataLoader(TensorDataset(x, torch.arange(7)), batch_size=3),
            lambda x: DataLoader(list(x), batch_size=3),  # type: ignore[arg-type]
            lambda x: (x[i : i + 3] for i in range(0, 7, 3)),
            lambda x: ((x[i : i + 3], "target") for i in range(0, 7, 3)),
            lambda x: iter([[x[:2]], [x[2:6]], [x[6:]]]),
        ],
        ids=["tensors", "pairs", "plain", "generator", "generator of pairs", "iterator"],
    )
    def test_batches_of_tensors(self, loader: Callable[[Tensor], Any]) -> None:
        network, x = build("mlp", 7)
        draws = draws_of(network, loader(x), shared=True)
        torch.testing.assert_close(draws, draws_of(network, x, shared=True))

    @pytest.mark.parametrize(
        "loader",
        [
            lambda x, z: DataLoader(Rows(x=x, z=z), batch_size=3),
            lambda x, z: (((x[i : i + 3], z[i : i + 3]), None) for i in range(0, 7, 3)),
            lambda x, z: ((({"x": x[i : i + 3], "z": z[i : i + 3]}), 0) for i in range(0, 7, 3)),
            lambda x, z: [UserDict(x=x[i : i + 3], z=z[i : i + 3]) for i in range(0, 7, 3)],
        ],
        ids=["dicts", "tuples with targets", "dicts with targets", "other mappings"],
    )
    def test_batches_of_several_tensors(self, loader: Callable[[Tensor, Tensor], Any]) -> None:
        network, x, z = two_inputs()
        draws = draws_of(network, loader(x, z), shared=True)
        torch.testing.assert_close(draws, draws_of(network, (x, z), shared=True))

    def test_a_triple_is_ambiguous(self) -> None:
        network, x, z = two_inputs()
        loader = DataLoader(TensorDataset(x, z, z), batch_size=3)
        with pytest.raises(TypeError, match=r"\(inputs, targets\).*got a list of 3"):
            draws_of(network, loader)

    @pytest.mark.parametrize("x", [DataLoader(TensorDataset(torch.ones(0, 6))), iter([])])
    def test_an_empty_loader_is_an_error(self, x: Any) -> None:
        with pytest.raises(ValueError, match="x: expected at least one batch"):
            draws_of(mlp(), x)

    def test_the_loader_is_read_once(self) -> None:
        read: list[int] = []

        def batches() -> Iterator[Tensor]:
            for index in range(3):
                read.append(index)
                yield torch.ones(2, 6)

        predictive = dubio.predict(mlp(), batches(), draws=50, chunk=7)
        assert predictive.mean.shape == (6, 3)
        assert read == [0, 1, 2]


class TestOutputs:
    @pytest.mark.parametrize(
        ("wrap", "select"),
        [
            (lambda y, h: (h, y), 1),
            (lambda y, h: [y, h], 0),
            (lambda y, h: (h, y), -1),
            (lambda y, h: (h, y), lambda output: output[1]),
            (lambda y, h: {"scores": y, "hidden": h}, "scores"),
            (lambda y, h: {"a": {"b": y}}, lambda output: output["a"]["b"]),
            (lambda y, h: {0: h, 1: y}, 1),
            (Answer, "scores"),
            (Answer, lambda answer: answer.scores),
            (Pair, "scores"),
            (Pair, 0),
            (lambda y, h: SimpleNamespace(scores=y), "scores"),
            (lambda y, h: (y,), None),
            (lambda y, h: {"only": y}, None),
            (lambda y, h: y, lambda y: y),
        ],
    )
    @pytest.mark.parametrize("keep_draws", [True, False])
    def test_select(
        self,
        wrap: Callable[[Tensor, Tensor], Any],
        select: Any,
        keep_draws: bool,
    ) -> None:
        torch.manual_seed(0)
        network, x = Wrapped(wrap).eval(), torch.randn(4, 6)
        options = {"draws": 3, "generator": seeded(), "keep_draws": keep_draws}
        selected = dubio.predict(network, x, select=select, **options)
        plain = dubio.predict(network.inner, x, draws=3, generator=seeded())
        torch.testing.assert_close(selected.mean, plain.mean)

    def test_rows_may_have_any_shape(self) -> None:
        for shape in [(4,), (4, 2), (4, 2, 3, 5)]:
            assert draws_of(nn.Dropout(0.5), torch.ones(shape)).shape == (3, *shape)
