"""What the paper says of its foragers, and rules that decide."""

import math
from statistics import fmean, median

from dubio_studies.framework.claims import Behind, Claim, Finding, Refuted
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import standard_error, with_error

EPSILON, THOMPSON = "epsilon", "thompson"
NAMES = {
    "epsilon": "ε-greedy",
    "thompson": "Thompson, a mask per tick",
    "greedy": "greedy",
    "episode": "Thompson, a mask for 200 ticks",
    "concrete": "Thompson, learned rates",
    "ensemble": "ensemble with prior functions",
}


def batches(rows: Rows) -> int:
    """How many there were after the burn-in."""
    return int(max(rows.distinct("batch")))


def firsts(rows: Rows, agent: str) -> list[float]:
    """The batch at which each agent first earned more than 1; the next after the last if never."""
    return rows.where(agent=agent, metric="first above 1").values()


def ends(rows: Rows, agent: str) -> list[float]:
    """What each agent earned in the last 20 batches."""
    return rows.where(agent=agent, metric="reward at the end").values()


def shown(rows: Rows, agent: str) -> str:
    """When agents of a setting got there, in words."""
    own, limit = firsts(rows, agent), batches(rows)
    late = sum(value > limit for value in own)
    never = f", {late} of {len(own)} not within {limit}" if late else ""
    return f"{NAMES[agent]} {with_error(own, 1)}, median {median(own):.0f}{never}"


def earlier(rows: Rows, agent: str, other: str) -> tuple[float, float]:
    """By how many batches one setting is earlier above 1, and the standard error of that."""
    one, two = firsts(rows, agent), firsts(rows, other)
    errors = (standard_error(one) or 0.0, standard_error(two) or 0.0)
    return fmean(two) - fmean(one), math.hypot(*errors)


def within_25(rows: Rows) -> Finding:
    """Whether Thompson sampling is above 1 after 25 batches."""
    return Finding(shown(rows, THOMPSON), median(firsts(rows, THOMPSON)) <= 25)


def about_175(rows: Rows) -> Finding:
    """Whether ε-greedy takes about as long as published."""
    middle = median(firsts(rows, EPSILON))
    got_there = middle <= batches(rows)
    return Finding(shown(rows, EPSILON), got_there and 175 / 2 <= middle <= 175 * 2)


def there_is_a_gap(rows: Rows) -> Finding:
    """Whether Thompson sampling is clearly earlier above 1."""
    gap, error = earlier(rows, THOMPSON, EPSILON)
    text = f"earlier by {gap:.0f} ± {error:.0f} batches".replace("-", "−")
    return Finding(text, gap > 2 * error)


def worse_in_the_end(rows: Rows) -> Finding:
    """Whether ε-greedy has overtaken it after 1,000 batches."""
    one, two = ends(rows, EPSILON), ends(rows, THOMPSON)
    error = math.hypot(standard_error(one) or 0.0, standard_error(two) or 0.0)
    text = (
        f"after {batches(rows)} batches: {NAMES[EPSILON]} {with_error(one, 3)}, "
        f"{NAMES[THOMPSON]} {with_error(two, 3)}"
    )
    return Finding(text, batches(rows) >= 1000 and fmean(one) - fmean(two) > 2 * error)


def masks_matter(rows: Rows) -> Finding:
    """Whether Thompson sampling is earlier than a greedy agent without dropout."""
    gap, error = earlier(rows, THOMPSON, "greedy")
    text = f"{shown(rows, 'greedy')}; Thompson sampling is earlier by {gap:.1f} ± {error:.1f}"
    return Finding(text.replace("-", "−"), gap > 2 * error)


def functions_matter(rows: Rows) -> Finding:
    """Whether one mask for 200 ticks is earlier than one a tick."""
    gap, error = earlier(rows, "episode", THOMPSON)
    text = f"{shown(rows, 'episode')}; it is earlier by {gap:.1f} ± {error:.1f}"
    return Finding(text.replace("-", "−"), gap > 2 * error)


CLAIMS = (
    Claim(
        "Thompson sampling gets a reward larger than 1 within 25 batches from the burn-in.",
        "Figure 6 and section 5.4: 25 batches.",
        "The median over agents is at most 25.",
        within_25,
        otherwise=Behind(
            "Agents differ by a factor of twenty, from 10 to 199 batches, and the paper shows one "
            "run: five of our forty get there within 25. It is the masks that cost time: the "
            "greedy agent, which only lacks them, has a median of 22."
        ),
    ),
    Claim(
        "ε-greedy takes 175 batches to achieve the same.",
        "Figure 6 and section 5.4: 175 batches.",
        "The median over agents is within a factor of two of 175, also when only agents that "
        "reach it are counted.",
        about_175,
    ),
    Claim(
        "Thompson sampling converges faster than ε-greedy.",
        "25 against 175 batches.",
        "The mean number of batches is smaller by more than two standard errors over agents; "
        "an agent that never gets there counts as if it did right after the end.",
        there_is_a_gap,
    ),
    Claim(
        "After 1,000 batches Thompson sampling is the worse of the two, since it still takes "
        "random actions.",
        "Figure 6.",
        "There are 1,000 batches, and ε-greedy earns more in the last 20 by more than two standard "
        "errors.",
        worse_in_the_end,
    ),
    Claim(
        "The masks help: without them and without random actions an agent is slower.",
        "Not in the paper, which has no greedy agent.",
        "Thompson sampling is above 1 earlier than the greedy agent by more than two standard "
        "errors.",
        masks_matter,
        otherwise=Refuted(
            "The greedy agent is above 1 earlier, by 34 ± 7 batches, and earns 0.018 ± 0.010 more "
            "per tick in the end. Random actions after the burn-in, which ε-greedy alone has, are "
            "what makes that agent late."
        ),
        ours=True,
    ),
    Claim(
        "Following one function for a while explores better than a new one at every tick.",
        "Not in the paper.",
        "With one mask for 200 ticks agents are above 1 earlier than with one mask per tick, "
        "by more than two standard errors.",
        functions_matter,
        otherwise=Refuted(
            "Agents with one mask for 200 ticks are later, by 78 ± 21 batches, and earn 0.06 less "
            "per tick in the end. Here every tick has a reward, so an agent need not search over "
            "many steps; uncertainty/deep-sea has a world where it must."
        ),
        ours=True,
    ),
)
