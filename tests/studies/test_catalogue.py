"""The catalogue: every table and figure once, and every study at smoke scale."""

import re
from collections import Counter
from pathlib import Path

import pytest

import practice
from dubio.data.inventory import DATASETS
from dubio.studies import catalogue
from dubio.studies.catalogue import ENTRIES, FAMILIES, Entry
from dubio.studies.options import explanations
from dubio.studies.report.pages import study_page
from dubio.studies.report.results import choose
from dubio.studies.running import run
from dubio.studies.study import SCALES

FIGURES_AND_TABLES = {"000": (2, 2), "001": (11, 4), "002": (6, 1), "003": (2, 0), "004": (27, 3)}
IMPLEMENTED = [entry for entry in ENTRIES if entry.status == "implemented"]
NAMED_ELSEWHERE = {
    *("000/figure-1", "001/figure-1", "001/tables-3-4", "001/mnist", "002/figure-2"),
    *("002/figure-3", "002/solar", "002/table-1", "002/figure-4", "003/figure-1a"),
    *("003/figure-1b", "003/figure-2", "004/regression", "004/table-3", "004/figure-16-17"),
    *("004/figure-18", "004/figure-19", "004/figure-20-21", "004/figure-22"),
}


@pytest.mark.parametrize("paper", FIGURES_AND_TABLES)
def test_every_table_and_figure_is_there_once(paper: str) -> None:
    covered = [item for e in ENTRIES if e.paper == paper for item in e.covers]
    assert max(Counter(covered).values()) == 1
    numbers = {re.sub(r"[ab]$", "", item) for item in covered if not item.startswith("appendix")}
    figures, tables = FIGURES_AND_TABLES[paper]
    expected = {f"figure {n}" for n in range(1, figures + 1)}
    expected |= {f"table {n}" for n in range(1, tables + 1)}
    assert numbers == expected


def test_ids_are_unique_and_belong_to_a_family() -> None:
    assert len({entry.id for entry in ENTRIES}) == len(ENTRIES)
    assert {entry.family for entry in ENTRIES} == set(FAMILIES)
    assert {entry.id for entry in ENTRIES} >= NAMED_ELSEWHERE


@pytest.mark.parametrize("entry", IMPLEMENTED, ids=lambda entry: entry.id)
def test_smoke(entry: Entry, tmp_path: Path) -> None:
    """From config to page; a second run computes nothing; settings are documented."""
    for name in entry.data:
        if DATASETS[name].here() is None:
            pytest.skip(f"{name}: not here, neither in DUBIO_DATA nor in the cache")
    study = entry.load()
    assert study.id == entry.id
    assert tuple(study.scales) == SCALES == tuple(entry.cost)
    assert explanations(type(study.scales["small"]))
    config = study.scales["smoke"]
    first = run(study, "smoke", config, root=tmp_path)
    assert first.computed == len(study.pieces(config))
    assert run(study, "smoke", config, root=tmp_path).computed == 0
    problems: list[str] = []
    shown = choose(entry, tmp_path, problems)
    assert shown is not None
    assert not problems
    assert shown.findings
    page = study_page(entry, shown)
    assert "$" not in page
    for claim in study.claims:
        assert claim.rule
    assert page.count('role="img"') == page.count("<svg")


def test_near_names_are_offered() -> None:
    with pytest.raises(catalogue.UnknownStudyError, match="did you mean 000/figure-1"):
        catalogue.find("000/figur-1")
    with pytest.raises(catalogue.UnknownStudyError, match="dubio list"):
        catalogue.find("~~~~~~")
    assert catalogue.find(practice.ID) is practice.ENTRY
