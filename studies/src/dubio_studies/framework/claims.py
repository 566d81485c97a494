"""What a paper says, a rule that decides whether our rows agree, and the verdict."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final, get_args

from dubio_studies.framework.rows import Rows

Verdict = Literal["holds", "goes further", "refuted", "behind", "undecided"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@final
@dataclass(frozen=True)
class Finding:
    """What our rows say about a claim.

    Attributes:
        ours: Our values, in words.
        agrees: Whether the rule of the claim is met.
        further: Whether ours also goes beyond what was published.
    """

    ours: str
    agrees: bool
    further: bool = False


@final
@dataclass(frozen=True)
class Refuted:
    """Our converged runs contradict the claim.

    Attributes:
        cause: What shows it.
    """

    cause: str
    verdict: Verdict = "refuted"


@final
@dataclass(frozen=True)
class Behind:
    """Our number is short of the published one.

    Attributes:
        cause: Why, and the study whose run shows it.
    """

    cause: str
    verdict: Verdict = "behind"


@final
@dataclass(frozen=True)
class Undecided:
    """The run is too small to tell.

    Attributes:
        reason: What is too small.
        cpu_hours: About how long a run that tells would take on one core.
    """

    reason: str
    cpu_hours: float
    verdict: Verdict = "undecided"

    @property
    def cause(self) -> str:
        """What is too small, and the price of more."""
        return f"{self.reason} A run that decides needs about {self.cpu_hours:,g} CPU-hours."


@final
@dataclass(frozen=True)
class Claim:
    """Something the paper says, and a rule that decides whether our rows agree.

    Attributes:
        text: The claim.
        published: The paper's values, or where it shows them.
        rule: When it counts as met, in words.
        judge: That rule, as a function of the rows alone.
        otherwise: What it means that the rule is not met, by somebody who has looked into it, in
            the run that the page calls examined.
        ours: Whether the claim is ours, not the paper's. It then has no part in the verdict on
            a study that has claims of the paper.
    """

    text: str
    published: str
    rule: str
    judge: Callable[[Rows], Finding]
    otherwise: Refuted | Behind | Undecided | None = None
    ours: bool = False


@final
@dataclass(frozen=True)
class Ruling:
    """A claim that was judged.

    Attributes:
        claim: The claim.
        finding: What our rows say.
        verdict: What it comes to.
        cause: Why the rule is not met; empty if it is.
    """

    claim: Claim
    finding: Finding
    verdict: Verdict
    cause: str = ""


def rule_on(claim: Claim, rows: Rows, scale: str, *, examined: bool) -> Ruling:
    """The verdict on a claim.

    Smoke runs test the machinery and decide nothing. A rule that is not met is what the claim says
    of it, if this is the run that was examined. A failure that nobody has looked into is undecided
    below the scale of the paper, and behind at that scale.

    Args:
        claim: The claim.
        rows: Of the run.
        scale: Of the run.
        examined: Whether this is the run whose failures the claims explain.
    """
    finding = claim.judge(rows)
    if scale == "smoke":
        return Ruling(claim, finding, "undecided", "A smoke run only tests the code.")
    if finding.agrees:
        return Ruling(claim, finding, "goes further" if finding.further else "holds")
    if examined and claim.otherwise is not None:
        return Ruling(claim, finding, claim.otherwise.verdict, claim.otherwise.cause)
    if scale == "paper":
        return Ruling(claim, finding, "behind", "Nobody has looked into the cause yet.")
    cause = f"Nobody has looked into this run, which is of scale {scale}."
    return Ruling(claim, finding, "undecided", cause)
