"""Verdicts: what a rule that is met, or not, comes to at each scale; and what is ours."""

import dataclasses
import re
from typing import Any

import pytest

import practice
from dubio_studies.catalogue import ENTRIES
from dubio_studies.framework.claims import Behind, Claim, Finding, Refuted, Undecided, rule_on
from dubio_studies.framework.recipe import Recipe
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Study
from dubio_studies.report.results import Shown

ROWS = Rows([])


def claim(finding: Finding, **fields: object) -> Claim:
    return Claim("text", "published", "rule", lambda rows: finding, **fields)  # type: ignore[arg-type]


MET, FURTHER, MISSED = (
    Finding("1", agrees=True),
    Finding("2", agrees=True, further=True),
    Finding("0", agrees=False),
)


@pytest.mark.parametrize(
    ("made", "scale", "verdict", "cause"),
    [
        (claim(MET), "small", "holds", ""),
        (claim(FURTHER), "paper", "goes further", ""),
        (claim(MET, otherwise=Refuted("why")), "small", "holds", ""),
        (claim(MISSED, otherwise=Refuted("why")), "small", "refuted", "why"),
        (claim(MISSED, otherwise=Behind("why")), "paper", "behind", "why"),
        (claim(MISSED, otherwise=Undecided("Why.", 2)), "paper", "undecided", "Why. A run"),
        (claim(MISSED), "small", "undecided", "Nobody has looked into this run"),
        (claim(MISSED), "paper", "behind", "Nobody has looked"),
        (claim(MET), "smoke", "undecided", "A smoke run only tests the code."),
        (claim(MISSED, otherwise=Refuted("why")), "smoke", "undecided", "A smoke run"),
    ],
)
def test_verdicts(made: Claim, scale: str, verdict: str, cause: str) -> None:
    ruling = rule_on(made, ROWS, scale, examined=True)
    assert ruling.verdict == verdict
    assert ruling.cause.startswith(cause)
    assert bool(ruling.cause) == bool(cause)


def test_a_cause_belongs_to_the_run_that_was_examined() -> None:
    made = claim(MISSED, otherwise=Refuted("why"))
    assert rule_on(made, ROWS, "small", examined=False).verdict == "undecided"
    assert "why" not in rule_on(made, ROWS, "paper", examined=False).cause


def test_a_claim_of_ours_colours_the_study_only_if_there_is_no_other() -> None:
    recipe = Recipe.of(practice.STUDY, "small", practice.Config(), 0)
    refuted = claim(MISSED, otherwise=Refuted("why"))
    ours = dataclasses.replace(refuted, ours=True)

    def verdict(*claims: Claim) -> str:
        rulings = [rule_on(made, ROWS, "small", examined=True) for made in claims]
        return Shown(practice.STUDY, recipe, ROWS, rulings, []).verdict

    assert verdict(claim(MET), refuted, claim(FURTHER)) == "refuted"
    assert verdict(claim(MET), ours) == "holds"
    assert verdict(claim(MET), claim(FURTHER), ours) == "goes further"
    assert verdict(claim(FURTHER), claim(MISSED, otherwise=Behind("why"))) == "behind"
    assert verdict(ours) == "refuted"


STUDIES = [entry.load() for entry in ENTRIES if entry.module]
REASONS = [claim.otherwise for study in STUDIES for claim in study.page.claims if claim.otherwise]


def sentences(text: str) -> int:
    return len(re.findall(r"(?<! al)(?<! eq)\.(?= [A-Z]|$)", text))


def test_every_cause_is_a_sentence() -> None:
    assert len(REASONS) > 20
    for reason in REASONS:
        assert reason.cause[0].isupper()
        assert reason.cause.endswith(".")
        assert len(reason.cause) > 40


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.id)
def test_causes_and_deviations_have_two_sentences_at_most(study: Study[Any]) -> None:
    whys = [claim.otherwise for claim in study.page.claims if claim.otherwise]
    texts = [why.reason if isinstance(why, Undecided) else why.cause for why in whys]
    for text in (*texts, *study.computation.deviations):
        assert sentences(text) <= 2, text


def test_what_would_decide_is_told_with_its_price() -> None:
    why = Undecided("Too few.", cpu_hours=1500)
    assert why.cause == "Too few. A run that decides needs about 1,500 CPU-hours."
