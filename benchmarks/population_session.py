"""Steps of a population's session, against the same networks trained one by one, as a ratio.

The protocol of the mushrooms (Clark et al. 2022): networks 97-100-100-1, 64 steps of Adam a call on
batches of 64 rows. One by one is a loop over `dubio.ELBO` with torch's Adam, fused and foreach;
for networks other than Bayes by Backprop also a bare loop of torch with fused Adam. All take turns.
One thread: CPU time. More threads: wall time. See README.md in this folder.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

import dubio

STEPS, ROWS, INPUTS, HIDDEN, TARGET = 64, 64, 97, 100, 1.7


def plain() -> nn.Module:
    return nn.Sequential(
        nn.Linear(INPUTS, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, 1),
    )


def dropout() -> nn.Module:
    first, relu, second, relu_too, last = plain()
    return nn.Sequential(first, relu, nn.Dropout(0.1), second, relu_too, nn.Dropout(0.1), last)


def bayes() -> nn.Module:
    prior = dubio.priors.ScaleMixture(0.5, 1.0, 0.01)
    first, second, last = (
        dubio.BayesLinear(*sizes, prior=prior)
        for sizes in ((INPUTS, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1))
    )
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)


NETWORKS: dict[str, Callable[[], nn.Module]] = {"plain": plain, "dropout": dropout, "bayes": bayes}


def objective(kind: str) -> dubio.ELBO:
    return dubio.ELBO(NETWORKS[kind](), dubio.likelihoods.Gaussian(1.0), 4096)


def loop(net: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], **adam: bool) -> Callable:
    """A function that trains a network for some steps, which go on from call to call."""
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4, **adam)

    def train(x: Tensor, y: Tensor) -> None:  # (K, B, …)
        for own_x, own_y in zip(x, y, strict=True):
            optimizer.zero_grad()
            loss(own_x, own_y).backward()
            optimizer.step()

    return train


def alone(kind: str) -> dict[str, Callable[[Tensor, Tensor], None]]:
    """Ways to train one network."""
    fused, foreach, net = objective(kind), objective(kind), NETWORKS[kind]()
    ways = {
        "fused": loop(fused, fused, fused=True),
        "foreach": loop(foreach, foreach, foreach=True),
    }
    if kind != "bayes":
        ways["bare"] = loop(net, lambda x, y: 0.5 * (net(x) - y).square().mean(), fused=True)
    return ways


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    print(f"torch {torch.__version__}, threads: {options.threads}; ms a step and member")
    print(
        f"{'':10}{'M':>4}{'session':>9}{'fused':>8}{'foreach':>9}{'bare':>8}"
        f"{'× fused':>10}{'× foreach':>10}{'× bare':>7}"
    )
    for kind in options.networks:
        for members in options.members:
            x, y = torch.randn(STEPS, members, ROWS, INPUTS), torch.randn(STEPS, members, ROWS, 1)
            session = dubio.Population([objective(kind) for _ in range(members)]).session(1e-4)
            ways: dict[str, tuple[int, Callable[[Tensor, Tensor], object], Tensor, Tensor]] = {
                "session": (members, session.steps, x, y),
                **{name: (1, way, x[:, 0], y[:, 0]) for name, way in alone(kind).items()},
            }
            seconds: dict[str, list[float]] = {name: [] for name in ways}
            for turn in range(options.rounds + 1):
                for name, (count, train, own_x, own_y) in ways.items():
                    start = clock()
                    train(own_x, own_y)
                    if turn:  # the first one records
                        seconds[name].append((clock() - start) / (STEPS * count))
            middle = {name: 1e3 * statistics.median(found) for name, found in seconds.items()}
            ratios = {
                name: statistics.median(
                    theirs / ours for theirs, ours in zip(found, seconds["session"], strict=True)
                )
                for name, found in seconds.items()
            }
            verdict = ""
            if members >= 16:
                reached = min(ratios[name] for name in ways if name != "session") >= TARGET
                verdict = f"   >= {TARGET:g} {'reached' if reached else 'NOT reached'}"
            print(
                f"{kind:10}{members:4}{middle['session']:9.3f}{middle['fused']:8.3f}"
                f"{middle['foreach']:9.3f}{middle.get('bare', float('nan')):8.3f}"
                f"{ratios['fused']:10.2f}{ratios['foreach']:10.2f}"
                f"{ratios.get('bare', float('nan')):7.2f}{verdict}",
                flush=True,
            )


if __name__ == "__main__":
    main()
