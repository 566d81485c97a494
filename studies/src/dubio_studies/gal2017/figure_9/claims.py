"""What Gal et al. 2017 says of its figure 9, and rules that decide."""

import math
from collections.abc import Sequence
from statistics import fmean

from dubio_studies.framework.claims import Behind, Claim, Finding, Refuted
from dubio_studies.framework.rows import Rows, Scalar
from dubio_studies.framework.standard_errors import standard_error, with_error

CONCRETE, FIXED, BERNOULLI = "concrete", "fixed", "bernoulli"
NAMES = {
    CONCRETE: "Concrete",
    FIXED: "fixed at 0.1",
    BERNOULLI: "learnable Bernoulli",
}
LAYERS = ("input", "hidden 1", "hidden 2")
COMPONENTS = ("x", "v", "ω", "θ")
UNITS = {"x": "m", "v": "m/s", "ω": "rad/s", "θ": "rad"}
PUBLISHED = 16.5
LATE = 3  # episodes at the end whose returns are averaged
STILL = 0.02  # what a rate may change by in as many steps once more
LATER = "drop after twice the steps"
LONGER = "drop, longer"
LONGER_LATER = "drop, longer, after twice the steps"


def last(rows: Rows) -> int:
    """The last episode."""
    return int(max(rows.distinct("episode")))


def by_agent(rows: Rows, metric: str, episode: int, **fields: Scalar) -> list[float]:
    """A number of each agent after an episode, in the order of agents."""
    own = rows.where(metric=metric, episode=episode, **fields)
    return [own.value(agent=agent) for agent in sorted(own.distinct("agent"))]


def late_returns(rows: Rows, masks: str) -> list[float]:
    """The mean test return of each agent over the last episodes."""
    end = last(rows)
    episodes = range(max(1, end - LATE + 1), end + 1)
    found = [by_agent(rows, "test return", episode, masks=masks) for episode in episodes]
    return [fmean(own) for own in zip(*found, strict=True)]


def falls(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether numbers fall by more than two standard errors of their differences."""
    changes = [late - early for early, late in zip(before, after, strict=True)]
    return fmean(changes) < -2 * (standard_error(changes) or 0.0)


def rate(value: float) -> str:
    """A dropout rate in words."""
    return f"{value:.3f}" if value >= 0.001 else "under 0.001"


def rates_fall(rows: Rows) -> Finding:
    """Concrete rates after the first and the last episode, by layer."""
    texts, verdicts = [], []
    for layer, name in enumerate(LAYERS):
        first, end = (
            by_agent(rows, "drop", episode, masks=CONCRETE, layer=layer)
            for episode in (1, last(rows))
        )
        texts.append(f"{name} {rate(fmean(first))} → {rate(fmean(end))}")
        verdicts.append(falls(first, end))
    return Finding("; ".join(texts), all(verdicts))


def spread_falls(rows: Rows, metric: str, masks: str = CONCRETE) -> Finding:
    """Epistemic deviations after the first and the last episode, by component."""
    texts, verdicts = [], []
    for component in COMPONENTS:
        first, end = (
            by_agent(rows, metric, episode, masks=masks, component=component)
            for episode in (1, last(rows))
        )
        texts.append(f"{component} {fmean(first):.3g} → {fmean(end):.3g} {UNITS[component]}")
        verdicts.append(falls(first, end))
    return Finding("; ".join(texts), all(verdicts))


def held_out_falls(rows: Rows) -> Finding:
    """On transitions that were held out."""
    return spread_falls(rows, "epistemic")


def elsewhere_falls(rows: Rows) -> Finding:
    """On states that never change."""
    return spread_falls(rows, "elsewhere")


def falls_more(rows: Rows) -> Finding:
    """By which factor uncertainty shrinks, with Concrete masks and with fixed rates."""
    texts, verdicts = [], []
    for component in COMPONENTS:
        shares = {}
        for masks in (CONCRETE, FIXED):
            first, end = (
                by_agent(rows, "epistemic", episode, masks=masks, component=component)
                for episode in (1, last(rows))
            )
            shares[masks] = fmean(end) / fmean(first)
        texts.append(f"{component} {shares[CONCRETE]:.2f} and {shares[FIXED]:.2f}")
        verdicts.append(shares[CONCRETE] < shares[FIXED])
    return Finding(f"left, Concrete and fixed: {'; '.join(texts)}", all(verdicts))


def no_worse(rows: Rows, masks: str, other: str) -> Finding:
    """Late test returns of one kind of mask, and of another; there must be something to match."""
    one, two = late_returns(rows, masks), late_returns(rows, other)
    error = math.hypot(standard_error(one) or 0.0, standard_error(two) or 0.0)
    text = f"{NAMES[masks]}: {with_error(one, 1)}; {NAMES[other]}: {with_error(two, 1)}"
    learned = max(fmean(one), fmean(two)) >= PUBLISHED / 2
    matched, better = (fmean(one) > fmean(two) + sign * 2 * error for sign in (-1, 1))
    return Finding(text, learned and matched, learned and better)


def matches_fixed(rows: Rows) -> Finding:
    """Concrete beside fixed rates."""
    return no_worse(rows, CONCRETE, FIXED)


def bernoulli_matches(rows: Rows) -> Finding:
    """Learnable Bernoulli beside Concrete."""
    if BERNOULLI not in rows.distinct("masks"):
        return Finding("not run", agrees=False)
    return no_worse(rows, BERNOULLI, CONCRETE)


def reaches_published(rows: Rows) -> Finding:
    """Late test returns with Concrete masks."""
    found = late_returns(rows, CONCRETE)
    best = max(rows.where(metric="test return", masks=CONCRETE).values())
    text = f"{with_error(found, 1)}; the best agent after any episode {best:.1f}"
    return Finding(text, fmean(found) >= PUBLISHED)


def have_converged(rows: Rows) -> Finding:
    """How far mean rates move when steps are doubled, at most."""
    texts, verdicts = [], []
    for masks in rows.where(metric=LATER).distinct("masks"):
        moves = {}
        for episode in rows.where(metric=LATER).distinct("episode"):
            for layer in range(len(LAYERS)):
                fields: dict[str, Scalar] = {"masks": masks, "layer": layer}
                now = by_agent(rows, "drop", episode, **fields)
                then = by_agent(rows, LATER, episode, **fields)
                moves[episode, layer] = fmean(then) - fmean(now)
        (episode, layer), most = max(moves.items(), key=lambda move: abs(move[1]))
        latest = max(own for own, _ in moves)
        at_end = max(abs(move) for (own, _), move in moves.items() if own == latest)
        texts.append(
            f"{NAMES[masks]}: at most {most:+.3f} ({LAYERS[layer]}, episode {episode}), "
            f"after episode {latest} {at_end:.3f}"
        )
        verdicts.append(abs(most) < STILL)
    return Finding("; ".join(texts).replace("-", "−"), all(verdicts))


CLAIMS = (
    Claim(
        "Concrete dropout automatically decreases the dropout probability as more data is "
        "observed.",
        "Figures 9a to 9c.",
        "In all three layers the rate is lower after the last episode than after the first, by "
        "more than two standard errors over agents.",
        rates_fall,
    ),
    Claim(
        "With Concrete dropout the epistemic uncertainty of all four state components decreases "
        "as more data is observed.",
        "Figures 9d to 9g, on a validation set that is split from the data after each episode.",
        "On held-out transitions it is lower after the last episode than after the first, by more "
        "than two standard errors over agents, for every component.",
        held_out_falls,
    ),
    Claim(
        "Concrete dropout matches the cumulative reward of a fixed rate of 0.1.",
        "Section 4.5.",
        "The mean test return of the last three episodes is not lower by more than two "
        "standard errors, and at least one of the two is half of the published 16.5 or more: "
        "below that there is nothing to match.",
        matches_fixed,
    ),
    Claim(
        "That cumulative reward is 16.5 in 25 steps.",
        "Section 4.5; the best known plans from rest earn 17.3.",
        "The mean test return of the last three episodes with Concrete dropout is 16.5 or more.",
        reaches_published,
        otherwise=Behind(
            "In the last three episodes four of five agents imagine only 9 to 13 and earn 7 to 10: "
            "the search for a policy falls short. The fifth imagines 15 to 16 and earns 11 to 15: "
            "there its dynamics do, too."
        ),
    ),
    Claim(
        "Uncertainty falls by more with Concrete dropout than with a fixed rate.",
        "Figures 9d to 9g show both.",
        "For every component, a smaller share of the first episode's uncertainty remains "
        "after the last.",
        falls_more,
        ours=True,
    ),
    Claim(
        "Uncertainty also falls on a fixed set of states that does not depend on the agents' data.",
        "Not in the paper, whose validation set changes with the episodes.",
        "As for held-out transitions, on 200 states spread over the state space.",
        elsewhere_falls,
        ours=True,
    ),
    Claim(
        "Rates have converged: they do not just reflect the speed of the optimiser.",
        "Not in the paper; its figure 1 shows rates that still moved at full speed.",
        "Doubling the number of steps changes no mean rate by 0.02 or more, in any episode "
        "that was checked.",
        have_converged,
        otherwise=Refuted(
            "Those of the first episodes do not settle: after the second, with four times the "
            "steps, the rate before layer 3 is 0.05 instead of 0.32, and twice as many take it to "
            "zero. From the seventh on, all rates are under 0.01 and twice the steps change them "
            "by less than 0.01."
        ),
        ours=True,
    ),
    Claim(
        "Learnable Bernoulli dropout earns as much as Concrete dropout.",
        "Not in the paper.",
        "The mean test return of the last three episodes is not lower by more than two "
        "standard errors, and at least one of the two is half of the published 16.5 or more: "
        "below that there is nothing to match.",
        bernoulli_matches,
        ours=True,
    ),
)
