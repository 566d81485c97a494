"""What the solar study is to show."""

from dubio.studies.restarts import with_error
from dubio.studies.rows import Rows
from dubio.studies.study import Claim, Finding

GAPS = ("1", "2", "3", "4", "5")


def all_gaps(rows: Rows, model: str, method: str, metric: str) -> list[float]:
    """A number over all gaps, for every restart."""
    return rows.where(model=model, method=method, metric=metric, gap="all").values()


def widening(rows: Rows, model: str, method: str) -> list[float]:
    """Deviation in the gaps over that on the data, for every restart."""
    on_data = rows.where(model=model, method=method, metric="std-on-data").values()
    in_gaps = all_gaps(rows, model, method, "std")
    return [gap / data for gap, data in zip(in_gaps, on_data, strict=True)]


def wider_in_gaps(rows: Rows) -> Finding:
    """Ratios of MC dropout and of the Gaussian process."""
    relu, tanh = widening(rows, "relu", "mc"), widening(rows, "tanh", "mc")
    process = widening(rows, "gp", "gp")
    return Finding(
        f"deviation in the gaps over that on the data: ReLU {with_error(relu)}, TanH "
        f"{with_error(tanh)}, Gaussian process {with_error(process)}, standard dropout 1",
        "reproduces" if min(*relu, *process) > 1.1 else "worse",
    )


def better_density(rows: Rows) -> Finding:
    """Log densities of MC dropout and standard dropout in the gaps, from the same networks."""
    found = {
        (model, method): all_gaps(rows, model, method, "lppd")
        for model in ("relu", "tanh")
        for method in ("mc", "standard")
    }
    better = all(
        min(m - s for m, s in zip(found[model, "mc"], found[model, "standard"], strict=True)) > 0
        for model in ("relu", "tanh")
    )
    return Finding(
        "; ".join(
            f"{name}: MC {with_error(found[model, 'mc'])}, standard "
            f"{with_error(found[model, 'standard'])}"
            for model, name in (("relu", "ReLU"), ("tanh", "TanH"))
        )
        + f"; Gaussian process {with_error(all_gaps(rows, 'gp', 'gp', 'lppd'))}",
        "reproduces" if better else "worse",
    )


CLAIMS = (
    Claim(
        "MC dropout is less certain where data are missing, as a Gaussian process is.",
        "appendix D.1, a figure",
        "The predictive deviation is larger in the gaps than on the data by more than a tenth, for "
        "the Gaussian process and in every restart of the ReLU network.",
        wider_in_gaps,
    ),
    Claim(
        "Uncertainty makes for better predictive densities than standard dropout has.",
        "tables of other data; none for these",
        "In every restart the same network gives what was observed in the gaps a higher mean log "
        "density by MC dropout than by standard dropout, both with the noise that is best for the "
        "training data.",
        better_density,
    ),
)
