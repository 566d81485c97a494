"""Contextual bandits: choices per second, and interactions per second of the mushroom protocol.

The network is 97-100-100-1 (95 features and two actions), batches of 64, 64 steps an interaction
(Clark et al. 2022, section 4.3). Beside a choice stands the call of the `Predictor` behind it, and
beside a training step a step of a bare loop around the same ELBO. One thread, CPU time, minimum
over rounds.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import dubio
from dubio import decide, likelihoods

FEATURES, ACTIONS, HIDDEN = 95, 2, 100
BATCH, STEPS, MEMORY = 64, 64, 4096
AGENTS = 16


def network(method: str) -> nn.Module:
    def linear(inputs: int, outputs: int) -> nn.Module:
        return (dubio.BayesLinear if method == "bayes" else nn.Linear)(inputs, outputs)

    def hidden(inputs: int) -> list[nn.Module]:
        drop = [nn.Dropout(0.1)] if method == "dropout" else []
        return [linear(inputs, HIDDEN), nn.ReLU(), *drop]

    return nn.Sequential(*hidden(FEATURES + ACTIONS), *hidden(HIDDEN), linear(HIDDEN, 1))


def settings(method: str) -> dict[str, Any]:
    return {
        "likelihood": likelihoods.Gaussian(1.0),
        "rule": "greedy" if method == "plain" else "thompson",
        "action_features": "one-hot",
        "steps": STEPS,
        "batch_size": BATCH,
        "memory": MEMORY,
    }


def filled(agent: Any, *agents: int) -> Any:
    """With a full memory; ``agents`` is how many there are, if it is a population."""
    draw = torch.Generator().manual_seed(0)
    contexts = torch.rand(MEMORY, FEATURES, generator=draw).round()
    actions = torch.randint(ACTIONS, (*agents, MEMORY), generator=draw)
    agent.update(contexts, actions, 5.0 * actions, steps=0)
    return agent


def bandit(method: str, net: nn.Module) -> decide.Bandit:
    return filled(decide.Bandit(net, ACTIONS, **settings(method)))


def together(method: str) -> decide.BanditPopulation:
    nets = [network(method) for _ in range(AGENTS)]
    return filled(decide.BanditPopulation(nets, ACTIONS, **settings(method)), AGENTS)


def seconds(call: Callable[[], object], rounds: int, least: float = 0.2) -> float:
    """CPU time of a call: the minimum over rounds of its mean over some calls."""
    call()
    call()
    found = float("inf")
    for _ in range(rounds):
        start, calls = time.process_time(), 0
        while calls == 0 or time.process_time() - start < least:
            call()
            calls += 1
        found = min(found, (time.process_time() - start) / calls)
    return found


def bare_step(net: nn.Module) -> Callable[[], object]:
    elbo = dubio.ELBO(net, likelihoods.Gaussian(1.0), MEMORY, generator=torch.Generator())
    optimizer = torch.optim.Adam(net.parameters(), fused=True)
    x, y = torch.randn(MEMORY, FEATURES + ACTIONS), torch.randn(MEMORY, 1)

    def step() -> None:
        rows = torch.randint(MEMORY, (BATCH,))
        optimizer.zero_grad()
        elbo(x[rows], y[rows]).backward()
        optimizer.step()

    return step


def choices(method: str, rounds: int) -> list[dict[str, object]]:
    net = network(method)
    agent = bandit(method, net)
    found: list[dict[str, object]] = []
    for rows in (1, 64, 4096):
        x, pairs = torch.rand(rows, FEATURES), torch.rand(rows * ACTIONS, FEATURES + ACTIONS)

        def choose(x: torch.Tensor = x) -> None:
            agent.forget(agent.choose(x).id)

        took = seconds(choose, rounds)
        behind = None
        if method != "plain":
            predictor = dubio.Predictor(net, draws=64, shared=True)
            seed = torch.Generator()
            behind = seconds(lambda p=predictor, z=pairs, s=seed: p(z, s), rounds)  # type: ignore[misc]
        found.append({"method": method, "contexts": rows, "choices": rows / took,
                      "over predictor": behind and took / behind})  # fmt: skip
    return found


def protocol(method: str, rounds: int) -> list[dict[str, object]]:
    agent, agents = bandit(method, network(method)), together(method)
    x = torch.rand(1, FEATURES)

    def interaction() -> None:
        agent.update(agent.choose(x).id, [5.0])

    def interactions() -> None:
        agents.update(x, agents.choose(x).action, torch.full((AGENTS, 1), 5.0))

    took, step = seconds(interaction, rounds), seconds(bare_step(network(method)), rounds)
    each = seconds(interactions, rounds) / AGENTS
    return [
        {"method": method, "agents": 1, "interactions": 1 / took,
         "over bare steps": took / (STEPS * step), "× one by one": None},
        {"method": method, "agents": AGENTS, "interactions": 1 / each,
         "over bare steps": each / (STEPS * step), "× one by one": took / each},
    ]  # fmt: skip


def show(rows: list[dict[str, object]]) -> None:
    print("  ".join(f"{name:>15}" for name in rows[0]))
    for row in rows:
        cells = (f"{v:.4g}" if isinstance(v, float) else str(v or "–") for v in row.values())
        print("  ".join(f"{cell:>15}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=["plain", "dropout", "bayes"])
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tables = {
        part.__name__: [
            row for method in arguments.methods for row in part(method, arguments.rounds)
        ]
        for part in (choices, protocol)
    }
    for name, rows in tables.items():
        print(f"\n{name} per second" if name == "choices" else "\nmushroom protocol")
        show(rows)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(tables, file, indent=1)


if __name__ == "__main__":
    main()
