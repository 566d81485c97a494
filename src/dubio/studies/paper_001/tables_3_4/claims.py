"""What Gal et al. 2017 says of its UCI tables."""

from dubio.studies.paper_001.tables_3_4.published import LOG_LIKELIHOOD, RMSE, Published
from dubio.studies.rows import Rows
from dubio.studies.study import Claim, Finding
from dubio.studies.uci.tables import Value

NEAR_ZERO = 0.02  # a rate that is called essentially zero
METRICS = {"log-likelihood": (LOG_LIKELIHOOD, 1.0), "rmse": (RMSE, -1.0)}  # sign of better


def ours(rows: Rows, table: str, method: str, stage: str, metric: str) -> Value | None:
    """Mean and standard error over splits; None if it was not run."""
    return Value.of(rows.where(table=table, method=method, stage=stage, metric=metric).values())


def behind(rows: Rows, stage: str, column: str) -> tuple[list[str], int]:
    """Cells in which Concrete dropout is worse than a published column, beyond chance."""
    worse, count = [], 0
    for metric, (published, sign) in METRICS.items():
        for table in rows.distinct("table"):
            value = ours(rows, table, "concrete", stage, metric)
            if value is None:
                continue
            row: Published = published[table]
            theirs: Value = getattr(row, column)
            count += 1
            if sign * (value.mean - theirs.mean) < -value.margin(theirs):
                worse.append(f"{table} ({metric})")
    return worse, count


def matches_dropout(rows: Rows) -> Finding:
    """Concrete dropout against dropout with two layers, whose rate was tuned by hand."""
    worse, count = behind(rows, "tuned", "dropout")
    return Finding(
        f"of {count} cells behind: {', '.join(worse) or 'none'}",
        "worse" if worse else "reproduces",
    )


def reproduces_itself(rows: Rows) -> Finding:
    """After the last M-step, against the paper's own column."""
    worse, count = behind(rows, "m-step", "m_step")
    return Finding(
        f"of {count} cells behind: {', '.join(worse) or 'none'}",
        "worse" if worse else "reproduces",
    )


def gains_by_m_step(rows: Rows) -> Finding:
    """Log-likelihoods before and after the last M-step."""
    parts, gains = [], True
    for table in rows.distinct("table"):
        before = ours(rows, table, "concrete", "learned", "log-likelihood")
        after = ours(rows, table, "concrete", "m-step", "log-likelihood")
        if before is None or after is None:
            continue
        parts.append(f"{table} {before.mean:.2f} → {after.mean:.2f}")
        gains = gains and after.mean > before.mean - 0.02
    return Finding(", ".join(parts).replace("-", "−"), "reproduces" if gains else "worse")


def drops_no_inputs(rows: Rows) -> Finding:
    """The rates of the features, over all splits."""
    rates = {
        table: rows.where(table=table, method="concrete", metric="drop", layer=0).values()
        for table in rows.distinct("table")
    }
    largest = {table: max(values) for table, values in rates.items() if values}
    text = ", ".join(f"{table} {value:.3f}" for table, value in largest.items())
    return Finding(
        f"largest rate of the features over splits: {text}",
        "reproduces" if largest and max(largest.values()) < NEAR_ZERO else "worse",
    )


CLAIMS = (
    Claim(
        "Concrete dropout matches the performance of hand-tuned dropout on UCI data.",
        "tables 3 and 4, column Dropout",
        "With the precision tuned on validation rows, in no cell worse than the published Dropout "
        "by more than two standard errors, of both together, and half a digit of what is printed.",
        matches_dropout,
    ),
    Claim(
        "Concrete dropout after the last M-step has the log-likelihoods and errors of the tables.",
        "tables 3 and 4, column CDropoutM",
        "In no cell worse by more than two standard errors, of both together, and half a digit.",
        reproduces_itself,
    ),
    Claim(
        "The last M-step improves the log-likelihood.",
        "table 3: CDropout and CDropoutM, better or equal in every row",
        "The mean log-likelihood does not fall by more than 0.02 on any data set.",
        gains_by_m_step,
    ),
    Claim(
        "The input layer's dropout probability always decreases to essentially zero.",
        "figure 4",
        "It is below 0.02 in every split of every data set.",
        drops_no_inputs,
    ),
)
