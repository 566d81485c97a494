"""The ledger: every number of the papers' tables once, judged by its sign and its errors."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from dubio.cli import main
from dubio_studies.catalogue import ENTRIES
from dubio_studies.framework.ledger import Cause, Cell, Number
from dubio_studies.framework.rows import Rows
from dubio_studies.report.ledger import LedgerLine, as_text, cause_of, ledger
from dubio_studies.report.ledger_page import ledger_page
from dubio_studies.report.results import Progress, Result, look

RESULTS = Path(__file__).parents[2] / "results"
PRINTED = {  # counted in the papers; average ranks, which follow from the rest, are left out
    ("boluki2020/table-1-cifar10", "table 1"): 10,
    ("boluki2020/table-1-cifar10", "text"): 1,
    ("boluki2020/table-1-camvid", "table 1"): 15,
    ("boluki2020/table-2", "table 2"): 114,
    ("gal2017/tables-3-4", "table 3"): 36,
    ("gal2017/tables-3-4", "table 4"): 36,
    ("gal2017/table-1", "table 1"): 5,
    ("gal2016/table-1", "table 1"): 60,
    ("gal2016/table-1", "authors' repository"): 18,
    ("clark2022/regression", "table 1"): 3,
    ("clark2022/regression", "table 2"): 9,
    ("clark2022/table-3", "table 3"): 24,
}


@pytest.fixture(scope="module")
def empty() -> list[LedgerLine]:
    """The ledger if nothing was run."""
    return ledger([Result(entry) for entry in ENTRIES], [])


def cell(ours: float | None, *, higher: bool = True, error: float = 0.1) -> Cell:
    number = None if ours is None else Number(ours, error)
    return Cell("table 1", "a number", Number(2.0, error), higher=higher, ours=number)


def test_every_printed_number_has_one_entry(empty: list[LedgerLine]) -> None:
    assert Counter((line.study, line.cell.table) for line in empty) == PRINTED
    names = [(line.study, line.cell.table, line.cell.name) for line in empty]
    assert len(set(names)) == len(names)


def test_what_was_not_run_says_why(empty: list[LedgerLine]) -> None:
    assert {line.cell.outcome for line in empty} == {"not run"}
    assert all(line.cause is not None and line.cause.text for line in empty)
    assert all(line.scale == "" for line in empty)


@pytest.mark.parametrize(
    ("ours", "higher", "outcome"),
    [
        (3.0, True, "goes further"),
        (1.0, True, "behind"),
        (3.0, False, "behind"),
        (1.0, False, "goes further"),
        (2.28, True, "holds"),  # 2·√(0.1² + 0.1²) + 0.005 = 0.288
        (2.29, True, "goes further"),
        (1.72, True, "holds"),
        (1.71, True, "behind"),
        (None, True, "not run"),
    ],
)
def test_signs_and_margins(ours: float | None, higher: bool, outcome: str) -> None:
    assert cell(ours, higher=higher).outcome == outcome


def test_the_authors_protocol_is_judged_where_it_was_run() -> None:
    both = Cell("t", "n", Number(1.0), True, ours=Number(5.0), authors=Number(0.0))
    assert (both.outcome, both.gain) == ("behind", -1.0)
    assert Cell("t", "n", Number(1.0), True, ours=Number(5.0)).outcome == "goes further"


def test_without_errors_half_a_printed_digit_is_tolerated() -> None:
    def of(ours: float) -> Cell:
        return Cell("t", "n", Number(0.1), True, digits=1, ours=Number(ours))

    assert [of(x).outcome for x in (0.06, 0.14, 0.16, 0.04)] == [
        "holds", "holds", "goes further", "behind",
    ]  # fmt: skip


def test_numbers_are_means_with_standard_errors() -> None:
    assert Number.of([]) is None
    assert Number.of([0.5], 100) == Number(50.0, None)
    mean, error = Number.of([1.0, 3.0], 2) or Number(0.0)
    assert (mean, error) == (4.0, pytest.approx(2.0))  # stdev √8 over √2
    assert Number(-1.005, 0.5).shown(1) == "−1.0 ± 0.5"


def test_a_cause_says_nothing_of_a_number_that_was_not_run(empty: list[LedgerLine]) -> None:
    """Nor does what is absent from a run say why another number is behind."""
    cause, absent = Cause("Too short."), Cause("No data.")
    missing = Cell("t", "n", Number(2.0), True, cause=cause, absent=absent)
    unrun = Cause("It was not run.")
    assert cause_of(missing, unrun, examined=True) == absent
    assert cause_of(replace(missing, absent=None), unrun, examined=True) == unrun
    assert cause_of(replace(missing, ours=Number(1.0)), unrun, examined=True) == cause
    told = {line.cause.text for line in empty if line.cause}
    assert told == {
        "It was not run.",
        "dubio does not have this method.",
        "We do not have this data set; the same models were compared on MovieLens 1M.",
        "We do not have the data of Year Prediction MSD.",
    }


def test_causes_are_those_of_the_examined_run() -> None:
    behind = Cell("t", "n", Number(2.0), True, ours=Number(1.0), cause=Cause("Why.", "a study"))
    unrun = Cause("It was not run.")
    assert cause_of(behind, unrun, examined=True) == Cause("Why.", "a study")
    unknown = cause_of(behind, unrun, examined=False)
    assert unknown is not None
    assert unknown.text == "Nobody has looked into it yet."
    assert LedgerLine("s", "small", behind, unknown).cause_text == unknown.text
    assert cause_of(cell(3.0), unrun, examined=True) is None
    assert "(shown by a study)" in LedgerLine("s", "small", behind, behind.cause).cause_text
    other = LedgerLine("s", "small", behind, Cause("A guess."))
    assert other.cause_text == "A guess. (not shown by a run)"


def test_causes_have_two_sentences_at_most() -> None:
    causes = {
        cause.text
        for entry in ENTRIES
        if entry.module
        for cell in entry.load().page.ledger(lambda _: Rows([]))
        for cause in (cell.cause, cell.absent)
        if cause
    }
    assert causes
    for text in causes:
        assert len(re.findall(r"\.(?= [A-Z]|$)", text)) <= 2, text


def test_stored_rows_fill_it_sorted_by_how_far_we_are() -> None:
    entries = [e for e in ENTRIES if e.id in ("gal2016/table-1", "gal2017/tables-3-4")]
    problems: list[str] = []
    lines = ledger([look(entry, RESULTS, problems) for entry in entries], problems)
    assert not problems
    run = [line for line in lines if line.cell.distance is not None]
    assert run == lines[: len(run)]
    assert len(run) >= 40
    distances = [line.cell.distance or 0.0 for line in run]
    assert distances == sorted(distances)
    boston = next(
        line for line in run if line.cell.name == "Boston housing, Dropout, log-likelihood"
    )
    assert boston.cell.published.mean == -2.46
    assert boston.cell.authors is not None
    assert boston.cell.ours is not None
    assert (boston.scale, boston.cell.outcome) == ("paper", "holds")
    page = ledger_page(lines)
    assert page.count("<tr>") == len(lines) + 1
    assert 'href="gal2016-table-1.html"' in page


def test_text_is_plain_unless_asked_for_colours(empty: list[LedgerLine]) -> None:
    lines = [LedgerLine("a/b", "small", cell(1.0), Cause("Why.")), *empty[:2]]
    plain = as_text(lines)
    assert "\033" not in plain
    assert "[1] Why. (not shown by a run)" in plain
    coloured = as_text(lines, colours=True)
    assert coloured.count("\033[31m") == 1
    assert re.sub(r"\033\[\d+m", "", coloured) == plain


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["--rows", str(RESULTS)]
    assert main(["ledger", "gal2017/table-1", "--json", *rows]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) == PRINTED["gal2017/table-1", "table 1"]
    for entry in found:
        assert set(entry) == {
            "study", "table", "cell", "published", "authors_protocol", "ours", "better", "gain",
            "margin", "scale", "altered", "code", "verdict", "cause", "shown_by",
        }  # fmt: skip
        assert set(entry["published"]) == {"mean", "error"}
        assert entry["verdict"] in ("behind", "holds", "goes further", "not run")
        assert entry["better"] in ("higher", "lower")
    assert main(["ledger", "boluki"]) == 2
    assert "boluki2020" in capsys.readouterr().err


def test_a_ledger_reads_the_runs_of_its_paper_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "gal2016" / "table-1" / "small-00000000"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("damaged")
    assert main(["ledger", "gal2017", "--rows", str(tmp_path)]) == 0
    assert main(["ledger", "gal2016", "--rows", str(tmp_path)]) == 1
    assert "damaged" in capsys.readouterr().err


def test_no_folder_and_no_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = tmp_path / "nowhere"
    assert main(["ledger", "--rows", str(nowhere)]) == 1
    assert f"--rows: expected a folder with runs, got {nowhere}" in capsys.readouterr().err
    assert main(["ledger", "--rows", str(tmp_path)]) == 1
    assert f"got {tmp_path}, which has none" in capsys.readouterr().err
    assert main(["ledger", "uncertainty", "--rows", str(RESULTS)]) == 0
    assert "no published numbers" in capsys.readouterr().out


def test_rows_that_do_not_fit_count_as_not_run() -> None:
    entry = next(e for e in ENTRIES if e.id == "gal2017/table-1")
    found = look(entry, RESULTS, [])
    assert found.shown is not None
    broken = Rows([{**row, "value": "text"} for row in found.shown.rows])
    problems: list[str] = []
    lines = ledger([replace(found, shown=replace(found.shown, rows=broken))], problems)
    assert {line.cell.outcome for line in lines} == {"not run"}
    assert "do not fit the code of the study" in problems[0]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"recipe": "smoke"}, "A smoke run only tests the code."),
        ({"unusable": ["x: damaged"]}, "There is a run that cannot be used"),
        ({"started": [Progress(cast(Any, None), 4, 9)]}, "The run is not finished: 4/9 pieces."),
    ],
)
def test_no_number_comes_from_smoke_or_from_a_run_that_is_not_whole(
    change: dict[str, Any], why: str
) -> None:
    entry = next(e for e in ENTRIES if e.id == "gal2017/table-1")
    found = look(entry, RESULTS, [])
    assert found.shown is not None
    if "recipe" in change:
        recipe = replace(found.shown.recipe, scale="smoke")
        found = replace(found, shown=replace(found.shown, recipe=recipe))
    else:
        found = replace(found, shown=None, **change)
    for line in ledger([found], []):
        assert line.cell.outcome == "not run"
        assert line.cause_text.startswith(why)


def test_other_settings_are_marked() -> None:
    entry = next(e for e in ENTRIES if e.id == "gal2017/table-1")
    found = look(entry, RESULTS, [])
    assert found.shown is not None
    assert {line.scale_text for line in ledger([found], [])} == {"small"}
    recipe = replace(found.shown.recipe, seed=1)
    other = replace(found, shown=replace(found.shown, recipe=recipe))
    assert {line.scale_text for line in ledger([other], [])} == {"small, other settings"}
