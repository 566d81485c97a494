"""With ``shared=True`` a draw is one function of a row, wherever the network puts rows."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

import dubio
from one_function_networks import CASES

DRAWS = 6


def build(name: str, rows: int = 5) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    network = CASES[name].make().eval()
    return network, CASES[name].inputs(rows)


def take(x: Any, order: Any) -> Any:
    index = torch.as_tensor(order)
    if isinstance(x, tuple):  # the last has no rows
        return (*tree_map(lambda t: t[index], x[:-1]), x[-1])
    return x[index]


def functions(network: nn.Module, x: Any, **options: Any) -> Tensor:  # (S, B, …)
    generator = torch.Generator().manual_seed(3)
    return dubio.predict(network, x, draws=DRAWS, shared=True, generator=generator, **options).draws


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_rows_alone_permuted_and_in_other_batches(name: str) -> None:
    network, x = build(name)
    together = functions(network, x)
    assert together.std(0).max() > 1e-3
    for row in (0, 3):
        close(functions(network, take(x, [row]))[:, 0], together[:, row])
    for order in ([4, 2, 0, 3, 1], [0, 0, 2, 2, 2, 4, 1]):
        close(functions(network, take(x, order)), together[:, order])
    close(functions(network, x, chunk=4), together)


@pytest.mark.parametrize("name", CASES)
def test_rows_that_are_equal_or_nearly(name: str) -> None:
    """Values cannot tell rows apart; padding comes first in a batch."""
    network, x = build(name)
    same = take(x, [2] * 5)
    together = functions(network, same)
    for row in range(1, 5):
        close(together[:, row], together[:, 0])
    close(functions(network, take(x, [2]))[:, 0], together[:, 0])


@pytest.mark.parametrize("name", CASES)
def test_batch_sizes_equal_to_other_lengths(name: str) -> None:
    """Nor can sizes: batches as long as time, heads or features are wide."""
    network, _ = build(name)
    for rows in (2, 4, 8):
        x = CASES[name].inputs(rows)
        together = functions(network, x)
        close(functions(network, take(x, [rows - 1]))[:, 0], together[:, rows - 1])


@pytest.mark.parametrize("name", CASES)
def test_predictor_and_context_give_the_same(name: str) -> None:
    network, x = build(name)
    predictor = dubio.Predictor(network, draws=DRAWS, shared=True)
    for order in (range(5), [3], [1, 2, 3, 4], range(5)):
        some = take(x, list(order))
        expected = functions(network, some)
        close(predictor(some, torch.Generator().manual_seed(3)).draws, expected)
    noise = dubio.Noise(DRAWS, shared=True, generator=torch.Generator().manual_seed(3))
    for k in (0, DRAWS - 1):
        with noise[k]:
            y = network(*x) if isinstance(x, tuple) else network(x)
        close(y.detach(), expected[k])


@pytest.mark.parametrize("name", ["merged lstm", "time first", "cut", "words"])
def test_loader_with_a_smaller_last_batch(name: str) -> None:
    network, x = build(name)
    loader = torch.utils.data.DataLoader(x, batch_size=2)
    close(functions(network, loader), functions(network, x))
