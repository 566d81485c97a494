"""What the paper says of priors and learning rates, and rules that decide."""

from statistics import fmean

from dubio_studies.clark2022.figure_23_27.claims import BAYES, GREEDY, NAMES, last, less, totals
from dubio_studies.framework.claims import Claim, Finding, Undecided
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import with_error

WIDE, NARROW, SLOW = "bayes, slab 4", "bayes, slab 0.25", "bayes, rate 1e-5"


def some_runs_are_worse(rows: Rows) -> Finding:
    """Whether some agent of figure 26 ends with more regret than the greedy agent does."""
    greedy = fmean(totals(rows, GREEDY))
    own = [value for name in (BAYES, "bayes, slab 0.75") for value in totals(rows, name)]
    worse = sum(value > greedy for value in own)
    text = f"{worse} of {len(own)} agents end above {greedy:.0f}, the mean of the greedy ones"
    return Finding(text, worse > 0)


def _more(rows: Rows, agent: str) -> Finding:
    difference, error = less(rows, agent, BAYES)
    shown = ", ".join(
        f"{NAMES[name]} {with_error(totals(rows, name), 0)}" for name in (agent, BAYES)
    )
    text = f"{shown}; difference {difference:+.0f} ± {error:.0f} after {last(rows)} mushrooms"
    return Finding(text.replace("-", "−"), difference > 2 * error)


def too_slow(rows: Rows) -> Finding:
    """Whether a learning rate of 1e-5 costs more than 1e-4."""
    return _more(rows, SLOW)


def too_wide(rows: Rows) -> Finding:
    """Whether a wide prior costs more than σ₁ = 1."""
    return _more(rows, WIDE)


def too_narrow(rows: Rows) -> Finding:
    """Whether a narrow prior costs more than σ₁ = 1."""
    return _more(rows, NARROW)


CLAIMS = (
    Claim(
        "The Bayesian agent does not always beat the greedy one.",
        "Figure 26: single runs with σ₁ = 0.75 and 1.",
        "At least one agent with σ₁ = 0.75 or 1 ends with more regret than the greedy agents "
        "on average.",
        some_runs_are_worse,
    ),
    Claim(
        "With a learning rate of 1e-5 the agent converges too slowly.",
        "Figure 27a: 50,000 mushrooms were not enough.",
        "Its regret is higher than with 1e-4, by more than two standard errors over agents.",
        too_slow,
    ),
    Claim(
        "With a large prior variance the agent explores for longer than necessary.",
        "Figure 27b, without numbers.",
        "With σ₁ = 4 regret is higher than with 1, by more than two standard errors over agents.",
        too_wide,
        otherwise=Undecided(
            "Three agents and 1,000 of 50,000 mushrooms show only differences above 130; found was "
            "−20 ± 66. Whatever σ₁ is, agents eat about half of the mushrooms, as the greedy one "
            "does.",
            cpu_hours=22,
        ),
    ),
    Claim(
        "With a small prior variance the agent explores too little.",
        "Section 4.3: it may be prevented from exploring.",
        "With σ₁ = 0.25 regret is higher than with 1, by more than two standard errors.",
        too_narrow,
        otherwise=Undecided(
            "As with σ₁ = 4, three agents and 1,000 mushrooms are too few: the difference found is "
            "−32 ± 73.",
            cpu_hours=22,
        ),
    ),
)
