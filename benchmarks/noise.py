"""What noise costs, beside the matrix product that it feeds.

Activations 1280 × 400; the product with a 400 × 400 matrix is 1.00. Kernels at each level of
instructions and torch's own functions take turns in one process. One thread: median of CPU time;
more: minimum of wall time.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

import dubio
from dubio.native import weights
from dubio.native.library import LEVELS, LOADED, MaskDescription
from dubio.native.stream import Stream
from dubio.native.weights import SAMPLE, GaussianPrior, GaussianWeights

ROWS, UNITS = 1280, 400
SIZE = ROWS * UNITS
TARGETS = {"mask .5": 0.05, "mask .1": 0.05, "mask by unit": 0.05, "normal": 0.12}  # with AVX2

BERNOULLI, CONCRETE, GAUSSIAN = range(3)
UNIFORM, NORMAL = range(2)

Contenders = dict[str, Callable[[], object]]


def of_torch() -> Contenders:
    x, w = torch.randn(ROWS, UNITS), torch.randn(UNITS, UNITS)
    out = torch.empty_like(x)
    return {
        "product": lambda: torch.mm(x, w, out=out),
        "F.dropout .5": lambda: F.dropout(x, 0.5),
        "F.dropout .1": lambda: F.dropout(x, 0.1),
        "normal_": lambda: out.normal_(),
        "uniform_": lambda: out.uniform_(),
    }


def of_kernels(threads: int) -> Contenders:
    """Calls of the library by data pointers, as dubio makes them."""
    loaded = LOADED
    assert loaded is not None
    keep, logit = torch.rand(UNITS) * 0.5 + 0.4, torch.randn(UNITS)
    x, g, mean, rho = (torch.randn(ROWS, UNITS) for _ in range(4))
    out, of_mean, of_rates = torch.empty_like(x), torch.empty_like(x), torch.empty(UNITS)
    variance = rho.square()
    masks = {
        "mask .5": MaskDescription(None, 0.5, 2.0, 1, 0.0, BERNOULLI, 0, 0),
        "mask .1": MaskDescription(None, 0.9, 1 / 0.9, 1, 0.0, BERNOULLI, 0, 0),
        "mask by unit": MaskDescription(keep.data_ptr(), 0, 0, UNITS, 0.0, BERNOULLI, 0, 1),
        "Concrete": MaskDescription(logit.data_ptr(), 0, 0, UNITS, 0.1, CONCRETE, 0, 0),
        "Gaussian": MaskDescription(logit.data_ptr(), 0, 0, UNITS, 0.0, GAUSSIAN, 0, 0),
    }
    calls: Contenders = {}
    for name, mask in masks.items():
        calls[name] = lambda mask=mask: loaded.dubio_masked(
            mask, 7, 0, 1, SIZE, x.data_ptr(), SIZE, out.data_ptr(), threads
        )
    for name in ("mask by unit", "Concrete", "Gaussian"):
        calls[f"{name}, backward"] = lambda mask=masks[name]: loaded.dubio_masked_backward(
            mask, 7, 0, SIZE, x.data_ptr(), g.data_ptr(), out.data_ptr(), of_rates.data_ptr(),
            threads,
        )  # fmt: skip
    for name, kind in (("uniform", UNIFORM), ("normal", NORMAL)):
        calls[name] = lambda kind=kind: loaded.dubio_fill(
            kind, 7, 0, 1, SIZE, out.data_ptr(), threads
        )
    of, prior, stream = (
        GaussianWeights(mean, rho.view(-1), 0, 0),
        GaussianPrior(1.0),
        Stream(7, 0, 1),
    )
    return calls | {
        "weights and KL": lambda: weights.sample(SAMPLE, stream, of, prior, out),
        "weights, backward": lambda: weights.write_slopes(
            SAMPLE, stream, of, prior, 0.1, (g, None), of_mean, out
        ),
        "local": lambda: weights.local(stream, mean, variance),
        "local, slope": lambda: weights.local_slope(stream, variance),
    }


def measure(threads: int, rounds: int) -> dict[tuple[str, str], float]:
    """Milliseconds by name and level, torch's level being empty."""
    torch.set_num_threads(threads)
    clock = time.process_time_ns if threads == 1 else time.perf_counter_ns
    contenders: dict[tuple[str, str], Callable[[], object]] = {
        (name, ""): call for name, call in of_torch().items()
    }
    levels: list[str] = []
    if LOADED is not None:
        best = LOADED.dubio_best_level()
        levels = list(LEVELS[: best + 1])
        for name, call in of_kernels(threads).items():
            contenders |= {(name, level): call for level in levels}
    times: dict[tuple[str, str], list[int]] = {key: [] for key in contenders}
    for _ in range(rounds):
        for (name, level), call in contenders.items():
            if LOADED is not None and level:
                LOADED.dubio_use_level(LEVELS.index(level))
            call()
            start = clock()
            call()
            call()
            times[name, level].append((clock() - start) // 2)
    middle = statistics.median if threads == 1 else min
    return {key: middle(own) / 1e6 for key, own in times.items()}


def report(threads: int, ms: dict[tuple[str, str], float]) -> None:
    product = ms["product", ""]
    levels = sorted({level for _, level in ms if level}, key=LEVELS.index)
    print(
        f"\n{threads} thread{'s' if threads > 1 else ''}; the product takes {product:.2f} ms = 1.00"
    )
    print(f"{'':24}" + "".join(f"{name:>10}" for name in ("torch", *levels)) + "  target")
    for name in dict.fromkeys(name for name, _ in ms):
        row = "".join(
            f"{ms[name, level] / product:10.3f}" if (name, level) in ms else " " * 10
            for level in ("", *levels)
        )
        target = ""
        if threads == 1 and name in TARGETS and (name, "avx2") in ms:
            share = ms[name, "avx2"] / product
            target = f"  {TARGETS[name]} {'met' if share <= TARGETS[name] else 'missed'} (avx2)"
        print(f"{name:24}{row}{target}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}; {dubio.kernels()}")
    for threads in arguments.threads:
        report(threads, measure(threads, arguments.rounds))


if __name__ == "__main__":
    main()
