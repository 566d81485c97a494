"""What is shown of the bandits: rows in, pictures out. Nothing here trains."""

import math
from statistics import fmean

from dubio.report.exhibits import Plot, Table
from dubio_studies.framework.claims import Behind, Claim, Finding
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import standard_error, with_error
from dubio_studies.framework.study import Page
from dubio_studies.uncertainty.bandits.published import METHODS, PROBLEMS, PUBLISHED, SOURCE


def regrets(rows: Rows, problem: str, method: str) -> list[float]:
    """Relative regrets of all trials."""
    return rows.where(problem=problem, method=method, metric="relative regret").values()


def not_behind(rows: Rows) -> Finding:
    """Whether no method is clearly behind what was published for it."""
    texts, behind = [], []
    for problem in rows.distinct("problem"):
        for method in rows.where(problem=problem).distinct("method"):
            number = PUBLISHED.get(problem, {}).get(method)
            if number is None:
                continue
            own = regrets(rows, problem, method)
            if fmean(own) - number > 2 * (standard_error(own) or 0.0):
                behind.append(method)
                texts.append(
                    f"{PROBLEMS[problem]}, {METHODS[method]}: {with_error(own)}, {number} published"
                )
    return Finding("; ".join(texts) or "none is behind", not behind)


def last_layers_find_the_rim(rows: Rows) -> Finding:
    """Whether NeuralLinear is clearly better than MC dropout on the harder wheels."""
    texts, verdicts = [], []
    for problem in rows.distinct("problem"):
        if problem not in ("wheel 0.9", "wheel 0.95", "long wheel 0.95"):
            continue
        ours, other = (regrets(rows, problem, m) for m in ("neural linear", "dropout"))
        error = math.hypot(standard_error(ours) or 0.0, standard_error(other) or 0.0)
        texts.append(
            f"{PROBLEMS[problem]}: NeuralLinear {with_error(ours)}, MC dropout {with_error(other)}"
        )
        verdicts.append(fmean(other) - fmean(ours) > 2 * error)
    return Finding("; ".join(texts) or "not run", bool(verdicts) and all(verdicts))


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows."""
    problems = rows.distinct("problem")
    cells = [
        [
            METHODS[method],
            *(
                with_error(found) if (found := regrets(rows, problem, method)) else "–"
                for problem in problems
            ),
        ]
        for method in rows.distinct("method")
    ]
    theirs = [problem for problem in problems if problem in PUBLISHED]
    published = [
        [
            METHODS[method],
            *(str(PUBLISHED[problem].get(method, "–")) for problem in theirs),
        ]
        for method in METHODS
    ]
    names = tuple(PROBLEMS[problem] for problem in problems)
    return [
        Table(
            "Regret in percent of that of uniform actions",
            ("method", *names),
            cells,
            "Means over trials with standard errors.",
        ),
        Table(
            "Published",
            ("method", *(PROBLEMS[problem] for problem in theirs)),
            published,
            SOURCE,
        ),
    ]


PAGE = Page(
    (
        Claim(
            "No method is behind what was published for it.",
            SOURCE,
            "No mean is above the published one by more than two standard errors over trials.",
            not_behind,
            otherwise=Behind(
                "The published 12.53 has no standard error and comes from other settings. Wen et "
                "al. 2020 report 15.05 ± 1.5, from which ours does not differ clearly."
            ),
            ours=True,
        ),
        Claim(
            "A last layer with an exact posterior explores better than dropout.",
            "Riquelme et al. 2018: wheel, δ = 0.95, 9.56 against 63.1.",
            "On the wheels with δ = 0.9 and 0.95, short and long, NeuralLinear has less "
            "regret than MC dropout by more than two standard errors.",
            last_layers_find_the_rim,
            ours=True,
        ),
    ),
    exhibits,
    examined="small-eb77a29c",
)
