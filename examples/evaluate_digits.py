"""A network to evaluate: trains a dropout classifier on small digits, and saves its state.

First ``python examples/evaluate_digits.py``, then ``dubio evaluate --model
examples/evaluate_digits.py:build --state digits.pt --data digits --likelihood categorical``.
"""

import torch
import torch.nn.functional as F
from torch import nn

from dubio.evaluation import read_data


def build() -> nn.Module:
    """An ordinary network for images (B, 1, 8, 8), with dropout."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 256),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(256, 10),
    )


def main(path: str = "digits.pt", epochs: int = 60) -> None:
    """Train for a few seconds on 500 digits; write the state_dict."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = read_data("digits:train")
    assert data.y is not None
    network = build()
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(data)).split(50):
            optimizer.zero_grad()
            F.cross_entropy(network(data.x[batch]), data.y[batch]).backward()
            optimizer.step()
    torch.save(network.state_dict(), path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
