"""A small network to derive others from, and what a loop of plain passes gives for it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from references import seeded

ROWS, DRAWS = 5, 400


def inputs() -> Tensor:
    return torch.randn(ROWS, 6, generator=seeded(5))


class Net(nn.Module):
    """Two layers with an ordinary dropout of 0.1; `pre` and `mid` stand around it."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(1)
            self.a, self.b = nn.Linear(6, 30), nn.Linear(30, 3)
            self.drop = nn.Dropout(0.1)
            self.build()
        self.eval()

    def build(self) -> None: ...

    def pre(self, h: Tensor) -> Tensor:
        return h

    def mid(self, h: Tensor) -> Tensor:
        return h

    def forward(self, x: Tensor) -> Any:
        return self.b(self.mid(self.drop(self.pre(torch.relu(self.a(x))))))


def loop(network: nn.Module, x: Tensor, select: Callable[[Any], Tensor] = lambda y: y) -> Tensor:
    """Plain passes in train mode; these networks have nothing but noise that depends on it."""
    network.train()
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(3)
        outputs = torch.stack([select(network(x)) for _ in range(DRAWS)])
    network.eval()
    return outputs


def check_spread(draws: Tensor, expected: Tensor) -> None:
    ratio = float((draws.var(0) / expected.var(0)).log().mean())
    assert abs(ratio) < 0.5, f"log of the ratio of variances: {ratio:.2f}"
