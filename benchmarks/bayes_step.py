"""Time of one training step of Bayes by Backprop, beside other libraries and a plain network.

784-h-h-10, batch 128, a Gaussian prior with its divergence in closed form, one draw a step. A step
is: zero the gradients, loss of a batch, backward, fused Adam, for all alike. Contenders take turns
in one process. One thread: median of CPU time; more: minimum of wall time.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dubio

ROWS, NUM_DATA = 128, 60_000
# how many times as fast as torchbnn each is to be, by threads; and "dubio" as a plain step
TARGETS = {"dubio": {1: 1.6, 2: 1.4}, "dubio, local": {1: 1.2}, "dubio, flipout": {1: 1.0}}
OF_PLAIN = 1 / 1.9

Loss = Callable[[Tensor, Tensor], Tensor]


def mlp(width: int, layer: Callable[[int, int], nn.Module]) -> nn.Sequential:
    return nn.Sequential(
        layer(784, width), nn.ReLU(), layer(width, width), nn.ReLU(), layer(width, 10)
    )


def plain(width: int) -> tuple[nn.Module, Loss]:
    net = mlp(width, nn.Linear)
    return net, lambda x, y: F.cross_entropy(net(x), y)


def bayes(sampler: str) -> Callable[[int], tuple[nn.Module, Loss]]:
    def build(width: int) -> tuple[nn.Module, Loss]:
        net = mlp(width, lambda ins, outs: dubio.BayesLinear(ins, outs, sampler=sampler))
        return net, dubio.ELBO(net, dubio.likelihoods.Categorical(), NUM_DATA)

    return build


def torchbnn(width: int) -> tuple[nn.Module, Loss]:
    import torchbnn as bnn

    net = mlp(width, lambda i, o: bnn.BayesLinear(0.0, 1.0, in_features=i, out_features=o))
    divergence = bnn.BKLLoss(reduction="sum")
    return net, lambda x, y: F.cross_entropy(net(x), y) + divergence(net) / NUM_DATA


def bayesian_torch(width: int) -> tuple[nn.Module, Loss]:
    from bayesian_torch.layers import LinearReparameterization

    layers = nn.ModuleList(
        LinearReparameterization(i, o) for i, o in ((784, width), (width, width), (width, 10))
    )

    def loss(x: Tensor, y: Tensor) -> Tensor:
        x, total = layers[0](x)
        for layer in layers[1:]:
            x, divergence = layer(x.relu())
            total = total + divergence
        return F.cross_entropy(x, y) + total / NUM_DATA

    return layers, loss


def limit(width: int, x: Tensor) -> Callable[[], None]:
    """What no such step can do without, with all memory in place.

    One normal number and one softplus for each weight, w = μ + σε, the matrix products, the
    gradient g·ε of σ, and fused Adam for μ and ρ. No divergence, activations or biases.
    """
    sizes = ((784, width), (width, width), (width, 10))
    mean = [nn.Parameter(torch.randn(outs, ins) / ins**0.5) for ins, outs in sizes]
    rho = [nn.Parameter(torch.full_like(weight, -5.0)) for weight in mean]
    noise, sigma, weight = ([torch.empty_like(m, requires_grad=False) for m in mean] for _ in "123")
    values = [x] + [torch.empty(ROWS, outs) for _, outs in sizes]
    of_values = [torch.rand_like(value) for value in values]
    for parameter in (*mean, *rho):
        parameter.grad = torch.zeros_like(parameter)
    optimizer = torch.optim.Adam([*mean, *rho], lr=1e-4, fused=True)

    @torch.no_grad()
    def take() -> None:
        for k in range(3):
            noise[k].normal_()
            torch.exp(rho[k], out=sigma[k]).log1p_()
            torch.addcmul(mean[k], sigma[k], noise[k], out=weight[k])
            torch.mm(values[k], weight[k].t(), out=values[k + 1])
        for k in (2, 1, 0):
            torch.mm(of_values[k + 1].t(), values[k], out=mean[k].grad)
            torch.mul(mean[k].grad, noise[k], out=rho[k].grad)
            if k > 0:
                torch.mm(of_values[k + 1], weight[k], out=of_values[k])
        optimizer.step()

    return take


CONTENDERS: dict[str, Callable[[int], tuple[nn.Module, Loss]]] = {
    "plain": plain,
    "dubio": bayes("weights"),
    "dubio, local": bayes("local"),
    "dubio, flipout": bayes("flipout"),
    "torchbnn": torchbnn,
    "bayesian-torch": bayesian_torch,
}


def step(net: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4, fused=True)

    def take() -> None:
        optimizer.zero_grad()
        loss(x, y).backward()
        optimizer.step()

    return take


def measure(steps: dict[str, Callable[[], None]], rounds: int, threads: int) -> dict[str, float]:
    """Milliseconds of a step of each."""
    clock = time.process_time if threads == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in steps}
    for round_ in range(rounds + 3):
        for name, take in steps.items():
            start = clock()
            take()
            if round_ >= 3:
                times[name].append(1e3 * (clock() - start))
    middle = statistics.median if threads == 1 else min
    return {name: middle(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--widths", type=int, nargs="+", default=[400, 1200])
    arguments = parser.parse_args()
    x, y = torch.rand(ROWS, 784), torch.randint(10, (ROWS,))
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        for width in arguments.widths:
            steps = {}
            for name, build in CONTENDERS.items():
                torch.manual_seed(0)
                try:
                    steps[name] = step(*build(width), x, y)
                except ImportError:
                    print(f"{name} is not installed")
            steps["limit"] = limit(width, x)
            found = measure(steps, arguments.rounds, threads)
            print(f"\n784-{width}-{width}-10, batch {ROWS}, {threads} thread(s)")
            for name, value in found.items():
                others = ", ".join(
                    f"{found[other] / value:.2f} × {other}"
                    for other in ("torchbnn", "bayesian-torch", "plain")
                    if other in found and other != name
                )
                target = TARGETS.get(name, {}).get(threads)
                wanted = f"   target {target} × torchbnn" if target else ""
                if name == "dubio":
                    wanted += f", {OF_PLAIN:.2f} × plain"
                print(f"{name:<16} {value:7.2f} ms   speed {others}{wanted}", flush=True)
    for name in ("torchbnn", "bayesian-torch"):
        try:
            print(f"{name} {version(name)}")
        except ImportError:
            continue


if __name__ == "__main__":
    main()
