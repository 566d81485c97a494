"""The catalogue: every table and figure once, and every study at smoke scale."""

import re
from collections import Counter
from pathlib import Path

import pytest

import practice
from dubio.data.inventory import DATASETS
from dubio_studies import catalogue
from dubio_studies.catalogue import ENTRIES, FAMILIES, Entry
from dubio_studies.framework.options import explanations
from dubio_studies.framework.running import run
from dubio_studies.framework.study import SCALES
from dubio_studies.report.pages import study_page
from dubio_studies.report.results import look

FIGURES_AND_TABLES = {
    "boluki2020": (2, 2),
    "gal2017": (11, 4),
    "gal2016": (6, 1),
    "herlau2022": (2, 0),
    "clark2022": (27, 3),
}
IMPLEMENTED = [entry for entry in ENTRIES if entry.status == "implemented"]
NEED_GYMNASIUM = {"gal2016/figure-6", "gal2017/figure-9", "uncertainty/deep-sea"}
NAMED_ELSEWHERE = {
    *(
        "boluki2020/figure-1",
        "gal2017/figure-1",
        "gal2017/tables-3-4",
        "gal2017/mnist",
        "gal2016/figure-2",
    ),
    *(
        "gal2016/figure-3",
        "gal2016/solar",
        "gal2016/table-1",
        "gal2016/figure-4",
        "herlau2022/figure-1a",
    ),
    *(
        "herlau2022/figure-1b",
        "herlau2022/figure-2",
        "clark2022/regression",
        "clark2022/table-3",
        "clark2022/figure-16-17",
    ),
    *(
        "clark2022/figure-18",
        "clark2022/figure-19",
        "clark2022/figure-20-21",
        "clark2022/figure-22",
    ),
}


@pytest.mark.parametrize("paper", FIGURES_AND_TABLES)
def test_every_table_and_figure_is_there_once(paper: str) -> None:
    covered = [item for e in ENTRIES if e.family == paper for item in e.card.covers]
    assert max(Counter(covered).values()) == 1
    besides = ("appendix", "our own sequel")
    own = [item for item in covered if not item.startswith(besides)]
    numbers = {re.sub(r"[ab]$| \(.*\)$", "", item) for item in own}
    figures, tables = FIGURES_AND_TABLES[paper]
    expected = {f"figure {n}" for n in range(1, figures + 1)}
    expected |= {f"table {n}" for n in range(1, tables + 1)}
    assert numbers == expected


def test_ids_are_unique_and_belong_to_a_family() -> None:
    assert len({entry.id for entry in ENTRIES}) == len(ENTRIES)
    assert {entry.family for entry in ENTRIES} == set(FAMILIES)
    assert {entry.id for entry in ENTRIES} >= NAMED_ELSEWHERE


@pytest.mark.parametrize("entry", IMPLEMENTED, ids=lambda entry: entry.id)
def test_smoke(
    entry: Entry,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From config to page; a second run computes nothing; settings are documented."""
    shared = tmp_path_factory.getbasetemp() / "networks that several studies look at"
    monkeypatch.setenv("DUBIO_CACHE", str(shared))
    for name in entry.card.data:
        if DATASETS[name].here() is None:
            pytest.skip(f"{name}: not here, neither in DUBIO_DATA nor in the cache")
    if entry.id in NEED_GYMNASIUM:
        pytest.importorskip("gymnasium")
    study = entry.load()
    assert study.id == entry.id
    computation = study.computation
    assert tuple(computation.scales) == SCALES == tuple(entry.card.cost)
    assert explanations(type(computation.scales["small"]))
    config = computation.scales["smoke"]
    first = run(study, "smoke", config, root=tmp_path)
    assert first.computed == len(computation.pieces(config))
    assert run(study, "smoke", config, root=tmp_path).computed == 0
    problems: list[str] = []
    result = look(entry, tmp_path, problems)
    assert not problems
    assert result.shown is not None
    assert {ruling.verdict for ruling in result.shown.rulings} == {"undecided"}
    page = study_page(result, result.shown)
    assert "$" not in page
    for claim in study.page.claims:
        assert claim.rule
    assert page.count('role="img"') == page.count("<svg")


def test_near_names_are_offered() -> None:
    with pytest.raises(catalogue.UnknownStudyError, match="did you mean boluki2020/figure-1"):
        catalogue.find("boluki2020/figur-1")
    with pytest.raises(catalogue.UnknownStudyError, match="now called gal2016/table-1"):
        catalogue.find("002/table-1")
    with pytest.raises(catalogue.UnknownStudyError, match=r"several studies; .* gal2016/solar"):
        catalogue.find("gal2016")
    with pytest.raises(catalogue.UnknownStudyError, match="dubio list"):
        catalogue.find("~~~~~~")
    assert catalogue.find(practice.ID) is practice.ENTRY
