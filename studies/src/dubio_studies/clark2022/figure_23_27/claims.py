"""What the paper says of its agents, and rules that decide."""

import math
from statistics import fmean

from dubio_studies.framework.claims import Claim, Finding, Undecided
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import standard_error, with_error

BAYES, GREEDY = "bayes", "greedy"
NAMES = {
    "bayes": "Bayes by Backprop",
    "greedy": "greedy",
    "epsilon 1 %": "ε-greedy, 1 %",
    "epsilon 5 %": "ε-greedy, 5 %",
    "dropout": "MC dropout",
    "concrete": "Concrete dropout",
    "bernoulli": "learnable Bernoulli dropout",
    "ensemble": "ensemble with prior functions",
    "linear": "linear, exact",
    "bayes, slab 0.75": "Bayes by Backprop, σ₁ = 0.75",
    "bayes, slab 0.25": "Bayes by Backprop, σ₁ = 0.25",
    "bayes, slab 4": "Bayes by Backprop, σ₁ = 4",
    "bayes, rate 1e-3": "Bayes by Backprop, rate 1e-3",
    "bayes, rate 1e-5": "Bayes by Backprop, rate 1e-5",
}


def last(rows: Rows) -> int:
    """The last step of the curves."""
    return int(max(rows.distinct("step")))


def totals(rows: Rows, agent: str, metric: str = "regret", step: int | None = None) -> list[float]:
    """What each agent of a setting has come to."""
    at = last(rows) if step is None else step
    return rows.where(agent=agent, metric=metric, step=at).values()


def less(rows: Rows, agent: str, other: str, metric: str = "regret") -> tuple[float, float]:
    """The difference of two settings' means, and its standard error."""
    one, two = totals(rows, agent, metric), totals(rows, other, metric)
    errors = (standard_error(one) or 0.0, standard_error(two) or 0.0)
    return fmean(one) - fmean(two), math.hypot(*errors)


def below_greedy(rows: Rows) -> Finding:
    """Whether Bayes by Backprop ends with clearly less regret than the greedy agent."""
    difference, error = less(rows, BAYES, GREEDY)
    shown = ", ".join(
        f"{NAMES[agent]} {with_error(totals(rows, agent), 0)}" for agent in (BAYES, GREEDY)
    )
    text = f"{shown}; difference {difference:+.0f} ± {error:.0f} after {last(rows)} mushrooms"
    return Finding(text.replace("-", "−"), difference < -2 * error)


def linear_growth(rows: Rows) -> Finding:
    """Whether random actions cost what they must, to the end."""
    end = last(rows)
    middle = max(step for step in rows.distinct("step") if step <= end / 2)
    texts, verdicts = [], []
    for share in (1, 5):
        agent = f"epsilon {share} %"
        pairs = zip(totals(rows, agent), totals(rows, agent, step=middle), strict=True)
        slope = fmean((late - early) / (end - middle) for late, early in pairs)
        expected = share / 100 * 245_507 / 50_000  # what uniform actions lose on a mushroom
        texts.append(f"{share} %: {slope:.3f} a mushroom, at best {expected:.3f}")
        verdicts.append(0.7 * expected < slope < 2 * expected)
    return Finding("; ".join(texts), all(verdicts))


def eats_alike(rows: Rows) -> Finding:
    """Whether the greedy agent eats about as much as Bayes by Backprop."""
    rates = {
        agent: [count / last(rows) for count in totals(rows, agent, "eaten")]
        for agent in (BAYES, GREEDY)
    }
    shown = ", ".join(f"{NAMES[agent]} {fmean(rate):.1%}" for agent, rate in rates.items())
    return Finding(shown, abs(fmean(rates[BAYES]) - fmean(rates[GREEDY])) < 0.05)


def eats_more_poison(rows: Rows) -> Finding:
    """Whether what greedy loses more than Bayes by Backprop is mostly poison."""
    poison, _ = less(rows, GREEDY, BAYES, "poison eaten")
    refused, _ = less(rows, GREEDY, BAYES, "food refused")
    more = less(rows, GREEDY, BAYES)[0]
    text = (
        f"greedy minus Bayes by Backprop: {poison:+.1f} poisonous mushrooms eaten, {refused:+.1f} "
        f"edible ones refused, {more:+.0f} of regret"
    )
    return Finding(text.replace("-", "−"), more > 0 and 15 * poison > 5 * refused)


CLAIMS = (
    Claim(
        "Bayes by Backprop converges to the optimal policy faster than the greedy agent.",
        "Figure 23 and section 4.3; figure 26 shows runs where it does not.",
        "Its regret after all mushrooms is lower by more than two standard errors over agents.",
        below_greedy,
        Undecided(
            "Five agents of each kind and 2,000 of the paper's 50,000 mushrooms are too few: "
            "Bayes by Backprop is ahead by one and a half standard errors. Both are far behind a "
            "linear agent with an exact posterior, whose regret is a sixth or a seventh of theirs.",
            cpu_hours=30,
        ),
    ),
    Claim(
        "ε-greedy agents accumulate regret linearly, due to their random actions.",
        "Figure 23.",
        "In the second half their regret grows by 70 to 200 % of what random actions cost.",
        linear_growth,
        Undecided(
            "Over 2,000 of the paper's 50,000 mushrooms the regret per mushroom rises, from 0.2 to "
            "1.2 with ε = 1 % and from 0.4 to 1.5 with 5 %, as agents eat ever more poison. Why "
            "was not examined; the greedy agent and Bayes by Backprop do the same.",
            cpu_hours=30,
        ),
    ),
    Claim(
        "The greedy agent eats about as much as Bayes by Backprop.",
        "Figure 24, against Blundell et al. 2015, whose greedy agent eats nothing for 1,000 steps.",
        "The shares of eaten mushrooms differ by less than 5 points.",
        eats_alike,
    ),
    Claim(
        "The greedy agent's higher regret is mostly due to eating poisonous mushrooms.",
        "Figure 25.",
        "It has a higher regret, and more of the difference comes from eaten poison (15 "
        "each) than from refused edible mushrooms (5 each).",
        eats_more_poison,
    ),
)
