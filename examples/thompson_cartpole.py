"""Thompson sampling learns to balance a pole: each episode follows one dropout mask.

Q-learning with replay in Gymnasium's CartPole-v1 (pip install gymnasium). After the first steps
there are no random actions: each episode draws one mask and keeps it to its end, so the agent
follows one hypothesis per episode. An optional argument is the number of steps.
"""

import copy
import sys

import gymnasium
import numpy as np
import torch
from torch import nn

import dubio

DISCOUNT, BATCH, RANDOM_STEPS, TARGET_EVERY, LAST = 0.99, 64, 1000, 200, 20


def network() -> nn.Module:
    """The value of both actions, for position, speed, angle and its speed."""
    return nn.Sequential(
        nn.Linear(4, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.ReLU(),
        nn.Dropout(0.1), nn.Linear(64, 2),
    )  # fmt: skip


def learn(
    net: nn.Module, target: nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor
) -> None:
    """A step on transitions of state, next state, action, reward and end, (B, 11)."""
    x, next_x, (action, reward, ended) = batch[:, :4], batch[:, 4:8], batch[:, 8:].T
    with torch.no_grad():
        best = net(next_x).argmax(1, keepdim=True)  # double Q-learning
        later = target(next_x).gather(1, best).squeeze(1)
    value = net(x).gather(1, action.long()[:, None]).squeeze(1)
    loss = nn.functional.smooth_l1_loss(value, reward + DISCOUNT * (1 - ended) * later)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main(steps: int) -> None:
    """Act and learn, and print how long the pole stood."""
    torch.set_num_threads(1)  # faster for such a small network
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    net = network()
    target = copy.deepcopy(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4)
    functions = dubio.Predictor(net, draws=1, shared=True)  # one mask for all rows
    env = gymnasium.make("CartPole-v1")
    memory = torch.zeros(steps, 11)
    lengths, length = [], 0
    seen, _ = env.reset(seed=0)
    for step in range(steps):
        mask = torch.Generator().manual_seed(len(lengths))  # one mask per episode
        values = functions(torch.from_numpy(seen)[None], mask).draws[0, 0]
        action = int(rng.integers(2) if step < RANDOM_STEPS else values.argmax())
        next_seen, reward, ended, cut, _ = env.step(action)
        transition = np.concatenate([seen, next_seen, (action, float(reward), ended)])
        memory[step] = torch.from_numpy(transition)
        seen, length = next_seen, length + 1
        if step >= 4 * BATCH:
            learn(net, target, optimizer, memory[rng.integers(step + 1, size=BATCH)])
        if step % TARGET_EVERY == 0:
            target.load_state_dict(net.state_dict())
        if ended or cut:
            lengths.append(length)
            seen, length = env.reset()[0], 0
        if (step + 1) % max(1, steps // 12) == 0:
            stood = np.mean(lengths[-LAST:] or [length])
            print(f"{step + 1:6} steps {stood:6.1f} {'█' * round(stood / 10)}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15_000)
