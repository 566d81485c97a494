"""What Gal et al. 2017 says of rates in segmentation, in figure 8."""

from statistics import fmean

from dubio_studies.framework.claims import Claim, Finding, Undecided
from dubio_studies.framework.rows import Rows

CONVERGED = 0.05  # what rates may differ by between starts
SETTLED = 0.02  # what a rate may change by in the last epoch
DETERMINISTIC = 0.05  # a rate below is largely none


def layers(rows: Rows) -> list[int]:
    """Numbers of the layers, from 1."""
    return sorted(rows.where(metric="drop").distinct("layer"))


def last_epoch(rows: Rows) -> int:
    """Its number; epoch 0 is the start."""
    return max(map(int, rows.where(metric="drop").distinct("epoch")))


def ends(rows: Rows, layer: int, before: int = 0) -> list[float]:
    """The rates of a layer at the end, or some epochs before, from every start."""
    return rows.where(metric="drop", layer=layer, epoch=last_epoch(rows) - before).values()


def converge(rows: Rows) -> Finding:
    """The largest gap between starts of any layer, at the end and at the beginning."""
    gaps = {layer: max(own) - min(own) for layer in layers(rows) if (own := ends(rows, layer))}
    layer = max(gaps, key=gaps.__getitem__)
    starts = rows.where(metric="drop", epoch=0).values()
    text = (
        f"starts are {max(starts) - min(starts):.2f} apart, ends {gaps[layer]:.3f} at most (layer "
        f"{layer}), {fmean(gaps.values()):.3f} on average."
    )
    return Finding(text, gaps[layer] < CONVERGED)


def pattern(rows: Rows) -> Finding:
    """Mean rates of the first, second, middle and last layers."""
    own = layers(rows)
    shown = {
        "first": own[0],
        "second": own[1],
        "middle": own[len(own) // 2],
        "last but one": own[-2],
        "last": own[-1],
    }
    rates = {name: fmean(ends(rows, layer)) for name, layer in shown.items()}
    text = ", ".join(f"{name} {rate:.3f}" for name, rate in rates.items())
    low = max(rates["first"], rates["middle"])
    high = min(rates["second"], rates["last"])
    return Finding(f"{text}.", low < DETERMINISTIC and low < high)


def settle(rows: Rows) -> Finding:
    """The largest change of any rate in the last epoch."""
    changes = [
        abs(now - then)
        for layer in layers(rows)
        for now, then in zip(ends(rows, layer), ends(rows, layer, before=1), strict=True)
    ]
    return Finding(f"up to {max(changes):.3f} in the last epoch.", max(changes) < SETTLED)


CLAIMS = (
    Claim(
        "Rates converge to the same minima from starts between 0.05 and 0.5.",
        "figure 8",
        "In every layer the rates from all starts end less than 0.05 apart.",
        converge,
    ),
    Claim(
        "The second and last layers have larger rates; first and middle are largely deterministic.",
        "figure 8",
        "The rates of the first and the middle layer, means over starts, are below 0.05 and below "
        "those of the second and the last.",
        pattern,
        otherwise=Undecided(
            "All rates end near zero: means over starts lie between 0.004 and 0.011 in all fifteen "
            "layers, so they say nothing about a pattern. The network had already learned the same "
            "images without dropout, and dropout is in the middle block only.",
            cpu_hours=1_500,  # five FC-DenseNet-103 of 106 PFLOP each, at 100 GFLOP/s
        ),
    ),
    Claim(
        "Rates have settled.",
        "the paper shows them over training",
        "No rate changes by 0.02 or more in the last epoch.",
        settle,
        ours=True,
    ),
)
