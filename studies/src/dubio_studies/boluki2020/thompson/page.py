"""What is shown of the feedback loop: rows in, pictures out. Nothing here trains."""

from functools import partial
from statistics import fmean

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, NARROW, QUIET, RULE, VERMILION, house_style
from dubio_studies.boluki2020.comparison import gain
from dubio_studies.boluki2020.table_2.published import METHODS
from dubio_studies.framework.claims import Claim, Finding, Refuted
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Page

MODELS = ("sivae-lbdrop", "vae-drop")
POLICIES = {"mean": "mean", "thompson": "Thompson sampling", "upper": "upper bound"}
LINES = {"mean": (BLUE, "-"), "thompson": (VERMILION, "--"), "upper": (GREEN, "-.")}
OURS = "sivae-lbdrop"


def at_the_end(rows: Rows, choice: str, method: str, policy: str) -> Rows:
    """Rewards of groups of users after the last round, by restart."""
    return rows.where(metric="groups", choice=choice, method=method, policy=policy)


def exploring_pays(rows: Rows) -> Finding:
    """Whether Thompson sampling ends clearly above the mean, with either choice of items."""
    texts, verdicts = [], []
    for choice in rows.distinct("choice"):
        by_policy = {p: at_the_end(rows, choice, OURS, p) for p in POLICIES}
        found = gain(by_policy["thompson"], by_policy["mean"])
        totals = ", ".join(f"{POLICIES[p]} {reward(rows, choice, OURS, p)}" for p in POLICIES)
        texts.append(f"{choice}: {totals}; Thompson sampling minus mean {found.shown(1)}")
        verdicts.append(found.clear)
    return Finding("; ".join(texts), all(verdicts))


def reward(rows: Rows, choice: str, method: str, policy: str) -> str:
    """The mean reward of a user after all rounds, over restarts."""
    own = rows.where(metric="reward", choice=choice, method=method, policy=policy)
    return f"{fmean(own.where(round=max(own.distinct('round'))).values()):.2f}"


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        Plot(
            "rewards",
            "Cumulative reward above that of the most popular items",
            "Mean cumulative reward per user by round, for three policies, minus that of "
            "recommending the most popular items",
            partial(draw_rewards, rows),
            wide=(12.0, 5.0),
            narrow=(5.0, 9.0),
            note="SIVAE+LBDrop; means over users and restarts. Bands are two standard errors of "
            "the reward over users. Policies share their users, so their differences are "
            "more precise: see the table.",
        ),
        reward_table(rows),
    ]


@house_style()
def draw_rewards(rows: Rows, size: Size) -> Figure:
    """Rewards by round, a panel for each choice of items."""
    figure = Figure(figsize=size, layout="constrained")
    choices = rows.distinct("choice")
    shape = (len(choices), 1) if size[0] < NARROW else (1, len(choices))
    panels = figure.subplots(*shape, squeeze=False)
    for axes, choice in zip(panels.flat, choices, strict=True):
        here = rows.where(metric="reward", choice=choice)
        popular = {row["round"]: row["value"] for row in here.where(method="popular")}
        for policy, (colour, line) in LINES.items():
            own = here.where(method=OURS, policy=policy)
            rounds = sorted(own.distinct("round"))
            mean, error = (
                [fmean(own.where(round=step).values(name)) for step in rounds]
                for name in ("value", "error")
            )
            above = [m - popular[step] for m, step in zip(mean, rounds, strict=True)]
            axes.plot(rounds, above, color=colour, linestyle=line, label=POLICIES[policy])
            axes.fill_between(
                rounds,
                [a - 2 * e for a, e in zip(above, error, strict=True)],
                [a + 2 * e for a, e in zip(above, error, strict=True)],
                color=colour, alpha=0.1, linewidth=0,
            )  # fmt: skip
        axes.axhline(0.0, color=QUIET, linewidth=1.0)
        axes.set_title(choice.capitalize())
        axes.set_xlabel("round")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel("liked items above the most popular")
        axes.grid(axis="y", color=RULE, linewidth=0.6)
    panels.flat[0].legend(frameon=False, loc="upper left")
    return figure


def reward_table(rows: Rows) -> Table:
    """Rewards at the end, and differences between the same users."""
    cells = []
    for choice in rows.distinct("choice"):
        for method in MODELS:
            for policy, name in POLICIES.items():
                own = at_the_end(rows, choice, method, policy)
                less = gain(own, at_the_end(rows, choice, method, "mean")).shown(1)
                cells.append(
                    [
                        f"{METHODS[method]}, {name}",
                        choice,
                        reward(rows, choice, method, policy),
                        "–" if policy == "mean" else less,
                    ]
                )
        cells.append([METHODS["popular"], choice, reward(rows, choice, "popular", "mean"), "–"])
    return Table(
        "Liked items of a user after all rounds",
        ("model, policy", "choice", "reward", "minus mean"),
        cells,
        "Differences are paired by user, with a standard error over users and restarts.",
    )


PAGE = Page(
    (
        Claim(
            "Thompson exploration reaches a higher cumulative reward than the mean.",
            "Not in the paper: our own expectation.",
            "With SIVAE+LBDrop and either choice of items, the reward after all rounds is "
            "higher by more than two standard errors over users and restarts.",
            exploring_pays,
            otherwise=Refuted(
                "The model is not refitted, so exploring only improves the user's own "
                "history: with all films this costs more than it gains, with rated films it "
                "makes no difference."
            ),
        ),
    ),
    exhibits,
    examined="small-aa38e8dc",
)
