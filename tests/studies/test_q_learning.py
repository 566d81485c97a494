"""Q-learning: golden values of ConvNetJS, rules of exploration, replay, and misuse."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dubio_studies.agents.exploration import Annealed, Constant, Exploration
from dubio_studies.agents.networks import q_network
from dubio_studies.agents.q_learning import Learning, QLearners
from dubio_studies.agents.replay import Replay, Transitions

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parent / "golden" / "q_learning.json").read_text(encoding="utf-8")
)
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


@pytest.mark.parametrize("age", [int(age) for age in GOLDEN["epsilon"]])
def test_the_share_of_random_actions_is_the_published_one(age: int) -> None:
    assert Annealed()(age) == pytest.approx(GOLDEN["epsilon"][str(age)], abs=1e-12)


def test_one_update_is_the_published_one() -> None:
    golden = GOLDEN["td_update"]
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    with torch.no_grad():
        for parameter, name in zip(net.parameters(), ("W1", "b1", "W2", "b2"), strict=True):
            parameter.copy_(torch.tensor(golden[name], dtype=torch.float64))
    learning = Learning(
        discount=golden["gamma"], batch_size=golden["batch_size"],
        learning_rate=golden["learning_rate"], weight_decay=golden["l2_decay"],
    )  # fmt: skip
    agents = QLearners([[net]], 2, Exploration(), learning, seeds=[0])
    x, actions, rewards, next_x = (
        torch.tensor([column], dtype=torch.float64)
        for column in zip(*golden["transitions"], strict=True)
    )
    values = agents.values(x)
    torch.testing.assert_close(values[0], torch.tensor(golden["q"], dtype=torch.float64), **CLOSE)
    batch = Transitions(x, actions, rewards, torch.zeros_like(rewards), next_x)
    agents.learn(batch, agents.values(next_x))
    agents.write()
    for parameter, name in zip(net.parameters(), ("W1", "b1", "W2", "b2"), strict=True):
        expected = torch.tensor(golden[f"{name}_after"], dtype=torch.float64)
        torch.testing.assert_close(parameter.detach(), expected, **CLOSE)
