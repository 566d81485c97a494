"""What is known of deep sea, and rules that decide."""

from statistics import fmean, median

from dubio_studies.framework.claims import Claim, Finding, Refuted
from dubio_studies.framework.rows import Rows

NAMES = {
    "epsilon": "ε-greedy, ε = 0.05",
    "dropout 0.1, step": "dropout 0.1, a mask per step",
    "dropout 0.1, episode": "dropout 0.1, a mask per episode",
    "dropout 0.5, step": "dropout 0.5, a mask per step",
    "dropout 0.5, episode": "dropout 0.5, a mask per episode",
    "concrete": "Concrete dropout, a mask per episode",
    "bernoulli": "learnable Bernoulli dropout, a mask per episode",
    "ensemble": "ensemble without prior functions",
    "prior": "ensemble with prior functions",
}
FIXED = tuple(name for name in NAMES if name.startswith("dropout"))
LEARNED = ("concrete", "bernoulli")


def given_up(rows: Rows) -> int:
    """The number of episodes after which agents give up."""
    return int(max(rows.distinct("episode")))


def solved(rows: Rows, explorer: str, size: int) -> list[float]:
    """The episodes at which agents have solved a sea, without those that have not."""
    own = rows.where(explorer=explorer, size=size, metric="solved").values()
    return [value for value in own if value <= given_up(rows)]


def agents(rows: Rows, explorer: str, size: int) -> int:
    """How many there were."""
    return len(rows.where(explorer=explorer, size=size, metric="solved"))


def counts(rows: Rows, explorers: tuple[str, ...]) -> tuple[str, int, int]:
    """How many agents have solved which sea, in words; and altogether, and of how many."""
    texts, total, of = [], 0, 0
    for explorer in explorers:
        if explorer not in rows.distinct("explorer"):
            continue
        parts = []
        for size in rows.distinct("size"):
            own, count = solved(rows, explorer, size), agents(rows, explorer, size)
            parts.append(f"N = {size}: {len(own)} of {count}")
            total, of = total + len(own), of + count
        texts.append(f"{NAMES[explorer]}: {', '.join(parts)}")
    return "; ".join(texts), total, of


def priors_solve(rows: Rows) -> Finding:
    """Whether all agents with prior functions solve all seas."""
    text, total, of = counts(rows, ("prior",))
    times = [
        f"N = {size}: {median(own):.0f}"
        for size in rows.distinct("size")
        if (own := solved(rows, "prior", size))
    ]
    return Finding(f"{text}; median episodes {', '.join(times)}", total == of)


def dropout_does_not(rows: Rows) -> Finding:
    """Whether no agent with dropout of a fixed rate solves any."""
    text, total, _ = counts(rows, FIXED)
    return Finding(text, total == 0)


def learned_do_not(rows: Rows) -> Finding:
    """Whether no agent with learned rates solves any."""
    text, total, _ = counts(rows, LEARNED)
    return Finding(text, total == 0)


def priors_are_needed(rows: Rows) -> Finding:
    """Whether ensembles without prior functions solve fewer seas."""
    without, total, of = counts(rows, ("ensemble",))
    _, others, _ = counts(rows, ("prior",))
    return Finding(f"without: {without}; {total} against {others} of {of}", total < others)


def doubt_stays(rows: Rows) -> Finding:
    """Whether dropout of a fixed rate is no surer of cells it knows than of others."""
    texts, verdicts = [], []
    for explorer in (*FIXED[1::2], "prior"):
        if explorer not in rows.distinct("explorer"):
            continue
        size = min(rows.distinct("size"))
        own = rows.where(explorer=explorer, size=size)
        mark = min(own.where(metric="spread, unvisited").distinct("episode"), default=None)
        if mark is None:
            continue
        known, unknown = (
            fmean(own.where(metric=f"spread, {what}", episode=mark).values())
            for what in ("visited", "unvisited")
        )
        texts.append(f"{NAMES[explorer]}: {unknown / known:.1f}")
        verdicts.append(unknown > 2 * known if explorer == "prior" else unknown < 2 * known)
    return Finding("; ".join(texts) or "not run", bool(verdicts) and all(verdicts))


CLAIMS = (
    Claim(
        "An ensemble with randomised prior functions explores deeply.",
        "Osband et al. 2018, figure 3; bsuite 2020: bootstrapped DQN with prior functions.",
        "All of its agents solve all seas.",
        priors_solve,
        ours=True,
    ),
    Claim(
        "Dropout with a fixed rate does not, with a mask per step or a mask per episode.",
        "Osband et al. 2018, section 3: dropout's spread does not depend on the data.",
        "No agent with dropout of 0.1 or 0.5 solves any sea.",
        dropout_does_not,
        otherwise=Refuted(
            "Two of ten agents with a rate of 0.5 solved N = 10, after 563 and 927 episodes; none "
            "solved N = 14 or 20. That is probably luck: in 1,000 episodes random actions find "
            "the treasure of N = 10 with a probability of 62 %."
        ),
        ours=True,
    ),
    Claim(
        "Learned rates do not help to explore.",
        "Our expectation: a layer has one rate, so all states have the same.",
        "No agent with Concrete or learnable Bernoulli dropout solves any sea.",
        learned_do_not,
        otherwise=Refuted(
            "One of ten agents, with Concrete dropout, solved N = 10, after 754 episodes, and none "
            "N = 14 or 20. That is probably luck: in 1,000 episodes random actions find the "
            "treasure of N = 10 with a probability of 62 %."
        ),
        ours=True,
    ),
    Claim(
        "One function per episode is not enough: the prior functions are needed.",
        "Osband et al. 2018, figure 3.",
        "Fewer agents with an ensemble without prior functions solve a sea.",
        priors_are_needed,
        ours=True,
    ),
    Claim(
        "Ensembles with prior functions are uncertain about what they have not seen; dropout "
        "is not.",
        "Not published for deep sea.",
        "In the smallest sea, at the first checkpoint, the spread of functions on cells "
        "never visited is more than twice that on visited ones with prior functions, and "
        "less than twice with fixed-rate dropout and a mask per episode.",
        doubt_stays,
        ours=True,
    ),
)
