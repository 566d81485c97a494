"""An online shop learns which of three banners to show to whom; clicks are known minutes later.

Afterwards the log shows what another policy would have earned, without running it.
"""

import tempfile

import torch
from torch import nn

import dubio
from dubio import decide, likelihoods


def visitors(seed: int) -> torch.Tensor:
    """Ten people: age, hour and income, standardised, (10, 3)."""
    return torch.randn(10, 3, generator=torch.Generator().manual_seed(seed))


def click_rates(contexts: torch.Tensor) -> torch.Tensor:
    """What nobody knows: how often the banners for shoes, books and tools are clicked, (B, 3)."""
    age, hour, _ = contexts.T
    return torch.sigmoid(torch.stack([-1 - 2 * age, -1 + 2 * hour, -1.5 + 2 * age], 1))


def main() -> None:
    """Two hours in the shop, and what could have been."""
    torch.manual_seed(0)
    net = nn.Sequential(dubio.BayesLinear(3, 32), nn.ReLU(), dubio.BayesLinear(32, 3))
    clicks = likelihoods.Bernoulli()
    agent = decide.Bandit(
        net, 3, likelihood=clicks, steps=5, learning_rate=0.01, floor=0.05, keep_log=True
    )
    chance = torch.Generator().manual_seed(1)
    shown = []
    with tempfile.TemporaryDirectory() as folder:
        agent.keep_in(folder)  # from here on nothing is lost, even if the process is killed
        for minute in range(120):
            contexts = visitors(seed=minute)
            choice = agent.choose(contexts)
            rates = click_rates(contexts)[range(10), choice.action]
            shown.append((choice.id, torch.bernoulli(rates, generator=chance)))
            if minute >= 5:
                agent.update(*shown[minute - 5])  # the clicks of five minutes ago
        agent = decide.Bandit.load(folder)  # as after a crash
    log = agent.log
    print(f"Clicks: {log.rewards[:300].mean():.3f} at first, {log.rewards[-300:].mean():.3f} now.")
    print(f"{len(agent.pending)} visitors have not been heard of yet.")

    young_or_not = (log.contexts[:, 0] < 0).double()  # shoes for the young, tools for others
    policy = torch.stack([young_or_not, torch.zeros(len(log)), 1 - young_or_not], 1)
    print(f"Shoes or tools: in truth {(policy * click_rates(log.contexts)).sum(1).mean():.3f}")
    for estimate in (decide.ips(log, policy), decide.doubly_robust(log, policy, agent)):
        print(f"  estimated {estimate.value:.3f} ± {estimate.standard_error:.3f}")


if __name__ == "__main__":
    main()
