"""What Boluki et al. 2020 says of its figure 1."""

import math
from statistics import fmean, median

from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Rows

FALSE_ALARM = 4.0  # standard errors that an unbiased estimate's mean z² may stray from 1


def no_bias(rows: Rows) -> Finding:
    """Mean of z² over the grid, which is 1 for an unbiased estimator."""
    ours = {method: mean_square_z(rows, method) for method in ("arm", "concrete")}
    cells = 2 * len(rows.where(part="grid", method="truth", unit=1))
    # var z² ≈ 2; both units of a cell share their masks, so count them as one
    limit = 1.0 + FALSE_ALARM * math.sqrt(2.0 / (cells / 2))
    reproduced = ours["arm"] <= limit < ours["concrete"]
    return Finding(
        f"mean z² over the grid: ARM {ours['arm']:.2f}, Concrete {ours['concrete']:.2f} "
        f"(1 without bias, at most {limit:.2f} by chance)",
        reproduced,
    )


def mean_square_z(rows: Rows, method: str) -> float:
    """Mean over cells and units of (bias/standard error)²."""
    bias = rows.where(part="grid", method=method, metric="bias")
    return fmean(
        (value / error) ** 2
        for value, error in zip(bias.values(), bias.values("error"), strict=True)
    )


def lower_mse(rows: Rows) -> Finding:
    """Mean squared error on the figure's grid and in other random networks."""
    grid = [
        fmean(rows.where(part="grid", method=method, metric="mse").values())
        for method in ("arm", "concrete")
    ]
    ratios = mse_ratios(rows, "arm")
    share = fmean(ratio < 1 for ratio in ratios)
    return Finding(
        f"on our grid ARM's mean MSE is {grid[0] / grid[1]:.2f} of Concrete's; over "
        f"{len(ratios)} random networks the median ratio is {median(ratios):.2f}, and ARM's is "
        f"lower in {share:.0%}",
        grid[0] < grid[1] and share > 0.5,
    )


def mse_ratios(rows: Rows, method: str) -> list[float]:
    """MSE of a method over Concrete's, both units together, for every random network."""
    networks = rows.where(part="networks", metric="mse")
    sums = {
        name: [
            sum(networks.where(method=name, network=number).values())
            for number in networks.distinct("network")
        ]
        for name in (method, "concrete")
    }
    return [a / b for a, b in zip(sums[method], sums["concrete"], strict=True)]


def close_traces(rows: Rows) -> Finding:
    """Distance of the averaged estimates from the true gradients along the descent."""
    ours = {method: trace_error(rows, method) for method in ("arm", "concrete")}
    return Finding(
        f"RMSE along the descent, in units of the true gradient: ARM {ours['arm']:.3f}, Concrete "
        f"{ours['concrete']:.3f}",
        ours["arm"] < ours["concrete"],
    )


def trace_error(rows: Rows, method: str) -> float:
    """Root mean square distance from the truth over that of the truth."""
    trace = rows.where(part="trace", method=method)
    truth = trace.values("truth")
    errors = [(v - t) ** 2 for v, t in zip(trace.values(), truth, strict=True)]
    return math.sqrt(fmean(errors) / fmean(t * t for t in truth))


def at_every_width(rows: Rows) -> Finding:
    """RMSE over Concrete's, by width: the paper's estimator, and the default of the library."""

    def ratios(method: str) -> list[float]:
        wide = rows.where(part="width", metric="rmse")
        widths = sorted(wide.distinct("width"))
        return [
            wide.value(method=method, width=w) / wide.value(method="concrete", width=w)
            for w in widths
        ]

    arm, ours = ratios("arm"), ratios("trapezoid")
    widths = ", ".join(str(w) for w in sorted(rows.where(part="width").distinct("width")))
    return Finding(
        f"RMSE over Concrete's at widths {widths}: trapezoid "
        f"{', '.join(f'{r:.2f}' for r in ours)}; ARM {', '.join(f'{r:.2f}' for r in arm)}",
        max(ours) < 1,
        further=True,
    )


CLAIMS = (
    Claim(
        "LBD, which leverages ARM, has no bias in estimating the gradient of the Bernoulli model.",
        "panels (a) to (f); no numbers",
        "Over the grid, the mean squared bias, in units of its standard error, is within "
        "four standard errors of 1 for ARM, and not for Concrete.",
        no_bias,
    ),
    Claim(
        "LBD has lower MSE than Concrete.",
        "panels (a) to (f); no numbers",
        "Lower on average over the grid, and in more than half of other random networks.",
        lower_mse,
    ),
    Claim(
        "The estimates from LBD follow the true gradients very closely.",
        "panels (g) and (h), 50 samples; no numbers",
        "Along gradient descent with the true gradient, ARM's averaged estimates are closer "
        "to it than Concrete's.",
        close_traces,
    ),
    Claim(
        "Sequel: truly binary masks also give better gradients than Concrete beyond two units.",
        "two units only",
        "The library's default estimator has a lower RMSE than Concrete at every width. (The "
        "paper's ARM does not.)",
        at_every_width,
        ours=True,
    ),
)
