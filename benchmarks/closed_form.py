"""Time and memory of dropout regression on a large bag of words, against ridge and factorising.

One solve and a path of 20 values of the prior precision, at equal error. Contenders are measured in
turns in one process: compare ratios within a run. See README.md in this folder.
"""

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

from dubio import BayesianDropoutRegression
from dubio.regression.design import make_design
from dubio.regression.prior import DropoutPrior
from dubio.regression.solver import Solver

Array = NDArray[np.float64]
Contender = Callable[[], list[Array]]  # the coefficients for each prior

ROWS, FEATURES, LENGTH = 4_500, 150_000, 200
DROP, TOLERANCE = 0.2, 1e-4
PRECISIONS = np.logspace(-2, 3, 20)
ONE, PATH = "one solve", "path of 20"
DUBIO, FACTORS = "dubio, conjugate gradients", "dubio, Cholesky"
RIDGE, BEFORE = "Ridge sparse_cg and scaling", "Ridge sparse_cg alone"


def reviews() -> tuple[sparse.csr_array, Array]:
    """Counts of words that follow Zipf's law, in texts of about 200 words, and labels ±1."""
    rng = np.random.default_rng(0)
    frequency = np.cumsum(1 / np.arange(11, FEATURES + 11))
    lengths = rng.poisson(LENGTH, ROWS)
    words = np.searchsorted(frequency, frequency[-1] * rng.random(lengths.sum()))
    texts = np.repeat(np.arange(ROWS), lengths)
    counts = sparse.coo_array((np.ones(len(words)), (texts, words)), shape=(ROWS, FEATURES))
    X = counts.tocsr()  # adds up repeated words
    opinion = rng.standard_normal(FEATURES) * (rng.random(FEATURES) < 0.1)
    return X, np.sign(X @ opinion + 5 * rng.standard_normal(ROWS))


def dubio_path(X: sparse.csr_array, y: Array, precisions: Array) -> list[Array]:
    """All values as columns of one iteration."""
    design = make_design(X, np.ones(len(y)), intercept=True)
    targets, _ = design.center_targets(y[:, None])
    priors = [DropoutPrior(DROP, float(precision)) for precision in precisions]
    means = Solver("cg", TOLERANCE).means(design, targets, priors)
    return [
        prior.keep * mean[:, 0] for prior, mean in zip(priors, means.swapaxes(0, 1), strict=True)
    ]


def dubio_fits(X: sparse.csr_array, y: Array, precisions: Array, solver: str) -> list[Array]:
    """One estimator after another."""
    models = (
        BayesianDropoutRegression(DROP, float(precision), solver=solver, tol=TOLERANCE)
        for precision in precisions
    )
    return [model.fit(X, y).coef_ for model in models]


def scales(X: sparse.csr_array, precisions: Array) -> list[Array]:
    """What turns ridge into dropout: the penalty of each feature, moved into its scale."""
    squares = X.power(2).sum(axis=0)
    penalties = (c / (1 - DROP) ** 2 + DROP / (1 - DROP) * squares for c in precisions)
    return [1 / np.sqrt(penalty) for penalty in penalties]


def ridge_fit(scaled: sparse.csr_array, y: Array, scale: Array) -> Array:
    ridge = Ridge(alpha=1.0, solver="sparse_cg", tol=TOLERANCE).fit(scaled, y)
    return np.asarray(ridge.coef_ * scale)


def ridge_fits(X: sparse.csr_array, y: Array, precisions: Array) -> list[Array]:
    """The same coefficients, with the scaling, which every value needs anew."""
    found = scales(X, precisions)
    return [ridge_fit(X @ sparse.diags_array(scale), y, scale) for scale in found]


def contenders(X: sparse.csr_array, y: Array, precisions: Array) -> dict[str, Contender]:
    """Everything that is measured often; factorising is measured apart."""
    ridge = {RIDGE: lambda: ridge_fits(X, y, precisions)}
    if len(precisions) > 1:
        return {DUBIO: lambda: dubio_path(X, y, precisions), **ridge}
    (scale,) = scales(X, precisions)
    scaled = X @ sparse.diags_array(scale)
    return {
        DUBIO: lambda: dubio_fits(X, y, precisions, "cg"),
        **ridge,
        BEFORE: lambda: [ridge_fit(scaled, y, scale)],
    }


@dataclass(frozen=True)
class Row:
    """One contender in one task.

    Attributes:
        spread: Half the distance of the quartiles of the calls, as a fraction of their median.
        error: Largest relative error of the centred predictions on the training rows, against
            the factorised solution.
        speedup: Of dubio's conjugate gradients over this contender.
        target: The least speed-up to reach.
    """

    task: str
    contender: str
    seconds: float
    spread: float
    error: float
    speedup: float
    target: float | None


def timed(call: Contender) -> tuple[float, list[Array]]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def error(X: sparse.csr_array, coefs: list[Array], exact: list[Array]) -> float:
    """The largest over priors of the relative error in the predictions."""

    def centred(coef: Array) -> Array:
        predictions = X @ coef
        return np.asarray(predictions - predictions.mean())

    distances = [
        np.linalg.norm(centred(coef - best)) / np.linalg.norm(centred(best))
        for coef, best in zip(coefs, exact, strict=True)
    ]
    return float(max(distances))


def measure(task: str, X: sparse.csr_array, y: Array, precisions: Array, rounds: int) -> list[Row]:
    """Take turns in random order; then factorise once for every prior."""
    calls = contenders(X, y, precisions)
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    results: dict[str, list[Array]] = {}
    order = random.Random(0)
    for number in range(rounds + 1):
        for name in order.sample(list(calls), len(calls)):
            took, results[name] = timed(calls[name])
            if number:  # the first round warms up
                seconds[name].append(took)
    took, exact = timed(lambda: dubio_fits(X, y, precisions, "cholesky"))
    seconds[FACTORS], results[FACTORS] = [took, took], exact
    base = statistics.median(seconds[DUBIO])
    targets = {ONE: {RIDGE: 1.0}, PATH: {RIDGE: 1.8, FACTORS: 50.0}}[task]
    rows = []
    for name, values in seconds.items():
        low, median, high = statistics.quantiles(values, n=4)
        rows.append(
            Row(
                task=task,
                contender=name,
                seconds=median,
                spread=(high - low) / 2 / median,
                error=error(X, results[name], exact),
                speedup=median / base,
                target=targets.get(name),
            )
        )
    return rows


def show(rows: list[Row]) -> None:
    print(f"\n{rows[0].task}\n{'':28}{'s':>9}{'±':>6}{'error':>10}{'× dubio':>9}   target")
    for row in rows:
        verdict = ""
        if row.target is not None:
            reached = "reached" if row.speedup >= row.target else "NOT reached"
            verdict = f"{row.target:g}: {reached}"
        print(
            f"{row.contender:28}{row.seconds:9.3f}{row.spread:6.0%}{row.error:10.1e}"
            f"{row.speedup:9.2f}   {verdict}"
        )


MEMORY = {
    "nothing": lambda X, y: None,
    DUBIO: lambda X, y: dubio_path(X, y, PRECISIONS),
    FACTORS: lambda X, y: (
        BayesianDropoutRegression(DROP, 1.0, solver="cholesky").fit(X, y).predictive(X[:200]).std
    ),
}


def peak(task: str) -> float:
    """Gigabytes of a process of its own that imports dubio, makes the data and does the task."""
    command = [sys.executable, __file__, "--peak", task]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", type=Path, help="also write all rows to this file")
    parser.add_argument("--peak", choices=MEMORY, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds: expected at least 2")
    if options.peak:
        MEMORY[options.peak](*reviews())
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
        return
    print("peak memory of a whole process, GB")  # first: a child counts what its parent had
    for task in MEMORY:
        gigabytes = peak(task)
        verdict = "below 1 GB: reached" if gigabytes < 1 else "below 1 GB: NOT reached"
        print(f"{task:28}{gigabytes:9.2f}   {verdict}", flush=True)
    X, y = reviews()
    print(
        f"\n{X.shape[0]} × {X.shape[1]}, {X.nnz} counts; drop {DROP}; CPU time, one thread, median"
    )
    table: list[Row] = []
    with threadpool_limits(1):
        for task, precisions in ((ONE, np.ones(1)), (PATH, PRECISIONS)):
            rows = measure(task, X, y, precisions, options.rounds)
            show(rows)
            table += rows
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in table], indent=1) + "\n")


if __name__ == "__main__":
    main()
