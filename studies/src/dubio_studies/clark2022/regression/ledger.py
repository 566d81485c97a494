"""Every number of tables 1 and 2 with ours."""

from dubio_studies.clark2022.regression.claims import MIXTURE, gaussian
from dubio_studies.clark2022.regression.published import TABLE_1, TABLE_2
from dubio_studies.framework.ledger import Cell, Number, RowsOf

STUDY = "clark2022/regression"


def printed_numbers(rows_of: RowsOf) -> list[Cell]:
    """Mean log density per point on [−0.5, 1.5] of one network each."""
    everywhere = rows_of(STUDY).where(metric="lppd", region="all")
    first = [
        Cell(
            "table 1",
            f"Gaussian prior, −log σ = {sigma}, lppd",
            Number(value),
            higher=True,
            ours=Number.of(everywhere.where(**gaussian(sigma)).values()),
        )
        for sigma, value in TABLE_1.items()
    ]
    second = [
        Cell(
            "table 2",
            f"mixture prior, −log σ1 = {sigma}, −log σ2 = {spike}, lppd",
            Number(value),
            higher=True,
            ours=Number.of(
                everywhere.where(**{**MIXTURE, "sigma": sigma, "spike": spike}).values()
            ),
        )
        for (sigma, spike), value in TABLE_2.items()
    ]
    return [*first, *second]
