"""The rows of this repository: whole, and under the ids of today."""

import hashlib
import json
from pathlib import Path

import pytest

from dubio_studies.catalogue import ENTRIES, find
from dubio_studies.framework.options import config_of
from dubio_studies.framework.recipe import Recipe, piece_key
from dubio_studies.framework.store import read_recipe, read_rows
from dubio_studies.report.results import collect

RESULTS = Path(__file__).parents[2] / "results"
RUNS = sorted(path.parent for path in RESULTS.rglob("run.json"))


def test_there_are_rows_and_nothing_else() -> None:
    assert len(RUNS) >= 21
    kept = {path.name for path in RESULTS.rglob("*") if path.is_file()}
    assert kept - {".lock"} == {"run.json", "rows.jsonl"}
    assert not (RESULTS / "report").exists()


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: str(folder.relative_to(RESULTS)))
def test_a_run_is_whole_and_under_its_id(folder: Path) -> None:
    recipe = read_recipe(folder)
    assert folder == RESULTS / recipe.study / f"{recipe.scale}-{recipe.hash}"
    rows = read_rows(folder)
    assert rows is not None
    assert {row["study"] for row in rows} == {recipe.study}
    computation = find(recipe.study).load().computation
    config = config_of(computation.scales[recipe.scale], recipe.settings)
    pieces = {piece_key(piece) for piece in computation.pieces(config)}
    assert {row["piece"] for row in rows} == pieces


def test_every_study_with_code_was_run_and_judged() -> None:
    results, problems = collect(RESULTS)
    assert not problems
    shown = {result.entry.id: result.shown for result in results if result.shown}
    assert set(shown) == {entry.id for entry in ENTRIES if entry.module}
    for run in shown.values():
        for ruling in run.rulings:
            assert bool(ruling.cause) == (ruling.verdict in ("refuted", "behind", "undecided"))


def test_what_is_shown_is_what_the_command_makes_today() -> None:
    """Settings of a scale that have changed since would leave pages of another run."""
    results, _ = collect(RESULTS)
    for run in filter(None, (result.shown for result in results)):
        scale = run.recipe.scale
        config = run.study.computation.scales[scale]
        assert run.recipe == Recipe.of(run.study, scale, config, seed=0), run.study.id


def test_a_new_name_changes_no_seed() -> None:
    """Rows that were computed under ``000/figure-1`` have the seeds and the folder of that name."""
    (folder,) = (RESULTS / "boluki2020" / "figure-1").glob("paper-*")
    recipe = read_recipe(folder)
    piece = {"method": "arm", "drop": 0.5}

    def first_digits(*parts: object) -> int:
        written = json.dumps(parts, sort_keys=True, ensure_ascii=False)
        return int(hashlib.sha256(written.encode()).hexdigest()[:8], 16)

    seed = recipe.seed_of(piece)
    assert seed.own == first_digits("000/figure-1", recipe.settings, piece, recipe.seed)
    assert seed.common == first_digits("000/figure-1", recipe.seed)
    assert folder.name == f"paper-{recipe.hash}"
