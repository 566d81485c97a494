"""Time of 20 draws from a network with Gaussian weights, beside other libraries.

784-h-h-10, batch 128, eval mode, no gradients. dubio draws many sets of weights at once; the
others run once per draw. Contenders take turns in one process. One thread: median of CPU time;
more: minimum of wall time.
"""

import argparse
from collections.abc import Callable

import torch
from bayes_step import ROWS, measure, mlp
from torch import Tensor, nn

import dubio

DRAWS = 20

Sampler = Callable[[Tensor], Tensor]  # (B, D) -> (S, B, K)


def bayes(sampler: str) -> Callable[[int], Sampler]:
    def build(width: int) -> Sampler:
        net = mlp(width, lambda ins, outs: dubio.BayesLinear(ins, outs, sampler=sampler))
        return lambda x: dubio.predict(net, x, draws=DRAWS).draws

    return build


def loop(net: nn.Module) -> Sampler:
    return lambda x: torch.stack([net(x) for _ in range(DRAWS)])


def torchbnn(width: int) -> Sampler:
    import torchbnn as bnn

    return loop(
        mlp(width, lambda i, o: bnn.BayesLinear(0.0, 0.1, in_features=i, out_features=o)).eval()
    )


def bayesian_torch(width: int) -> Sampler:
    from bayesian_torch.layers import LinearReparameterization

    class Outputs(nn.Module):
        """Their layer without the divergence that it returns as well."""

        def __init__(self, ins: int, outs: int) -> None:
            super().__init__()
            self.layer = LinearReparameterization(ins, outs)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x, return_kl=False)

    return loop(mlp(width, Outputs).eval())


def blitz(width: int) -> Sampler:
    from blitz.modules import BayesianLinear

    return loop(mlp(width, BayesianLinear).eval())


def limit(width: int) -> Sampler:
    """One normal number for each weight and draw, w = μ + σε, and the products: all in place."""
    sizes = ((784, width), (width, width), (width, 10))
    mean, sigma = ([torch.rand(outs, ins) for ins, outs in sizes] for _ in "12")
    weight = [torch.empty_like(m) for m in mean]
    out = [torch.empty(ROWS, outs) for _, outs in sizes]

    def run(x: Tensor) -> Tensor:
        for _ in range(DRAWS):
            value = x
            for k in range(3):
                weight[k].normal_()
                torch.addcmul(mean[k], sigma[k], weight[k], out=weight[k])
                value = torch.mm(value, weight[k].t(), out=out[k])
        return value

    return run


CONTENDERS: dict[str, Callable[[int], Sampler]] = {
    "dubio": bayes("weights"),
    "dubio, local": bayes("local"),
    "torchbnn": torchbnn,
    "bayesian-torch": bayesian_torch,
    "BLiTZ": blitz,
    "limit": limit,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--widths", type=int, nargs="+", default=[400, 1200])
    arguments = parser.parse_args()
    x = torch.rand(ROWS, 784)
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        for width in arguments.widths:
            calls: dict[str, Callable[[], None]] = {}
            for name, build in CONTENDERS.items():
                torch.manual_seed(0)
                try:
                    calls[name] = _call(build(width), x)
                except ImportError:
                    print(f"{name} is not installed")
            found = measure(calls, arguments.rounds, threads)
            ours = ("dubio", "dubio, local", "limit")
            peers = {name: ms for name, ms in found.items() if name not in ours}
            print(f"\n784-{width}-{width}-10, batch {ROWS}, {DRAWS} draws, {threads} thread(s)")
            for name, value in found.items():
                best = f"{min(peers.values()) / value:.2f} × the best peer" if peers else ""
                print(f"{name:<16} {value:8.2f} ms   {best}", flush=True)


def _call(sampler: Sampler, x: Tensor) -> Callable[[], None]:
    def call() -> None:
        with torch.no_grad():
            sampler(x)

    return call


if __name__ == "__main__":
    main()
