"""Every number of tables 1 and 2 with ours."""

from dubio_studies.clark2022.regression.published import TABLE_1, TABLE_2
from dubio_studies.clark2022.regression.reading import MIXTURE, Which, gaussian, stepped
from dubio_studies.framework.ledger import Cause, Cell, Number, RowsOf

STUDY = "clark2022/regression"
CAUSES = {
    (1, 6): Cause(
        "With the authors' learning rates three starts have −8.7 to −7.8, since training stops "
        "before the bands widen outside the data. With a constant rate it is −4.37, and −8.12 and "
        "−2.60 with the neighbouring spikes: single networks vary by more than the gap to −3.21.",
        shown_by=STUDY,
    )
}
"""By −log σ1 and −log σ2 of a mixture."""


def printed_numbers(rows_of: RowsOf) -> list[Cell]:
    """Mean log density per point on [−0.5, 1.5], of one network or of several starts."""
    everywhere = rows_of(STUDY).where(metric="lppd", region="all")

    def cell(
        table: str, prior: str, published: float, which: Which, cause: Cause | None = None
    ) -> Cell:
        return Cell(
            table,
            f"{prior}, lppd",
            Number(published),
            higher=True,
            ours=Number.of(everywhere.where(**which).values()),
            authors=Number.of(everywhere.where(**stepped(which)).values()),
            cause=cause,
        )

    first = [
        cell("table 1", f"Gaussian prior, −log σ = {sigma}", value, gaussian(sigma))
        for sigma, value in TABLE_1.items()
    ]
    second = [
        cell(
            "table 2",
            f"mixture prior, −log σ1 = {sigma}, −log σ2 = {spike}",
            value,
            {**MIXTURE, "sigma": sigma, "spike": spike},
            CAUSES.get((sigma, spike)),
        )
        for (sigma, spike), value in TABLE_2.items()
    ]
    return [*first, *second]
