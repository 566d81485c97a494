"""Which run stands for a study, what its claims come to, and how far other runs are."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

from dubio_studies import catalogue
from dubio_studies.catalogue import Entry
from dubio_studies.framework.claims import Ruling, Verdict, rule_on
from dubio_studies.framework.former_ids import NUMBERS
from dubio_studies.framework.options import as_options, config_of, spell
from dubio_studies.framework.recipe import Recipe, piece_key
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.store import StoreError, read_recipe, read_rows, stored_keys
from dubio_studies.framework.study import SCALES, Study

Status = Literal[Verdict, "started", "not run", "planned"]
SERIOUS: tuple[Verdict, ...] = ("refuted", "behind", "undecided", "goes further", "holds")
"""Of all verdicts on a study the first one found here is shown for it."""


@final
@dataclass(frozen=True)
class Progress:
    """A run that was interrupted.

    Attributes:
        recipe: Of the run.
        done: How many pieces are stored.
        total: How many there are.
    """

    recipe: Recipe
    done: int
    total: int

    def __str__(self) -> str:
        return f"{self.done}/{self.total}"


@final
@dataclass(frozen=True)
class Shown:
    """The run that is shown for a study.

    Attributes:
        study: The study.
        recipe: Of the run.
        rows: Of the run.
        rulings: What they say about each claim.
        others: Recipes of other finished runs.
    """

    study: Study[Any]
    recipe: Recipe
    rows: Rows
    rulings: Sequence[Ruling]
    others: Sequence[Recipe]

    @property
    def verdict(self) -> Verdict:
        """The most serious one on a claim of the paper; claims of ours do not count."""
        found = {r.verdict for r in self.rulings if not r.claim.ours}
        return next((verdict for verdict in SERIOUS if verdict in found), "undecided")

    @property
    def command(self) -> str:
        """The command that made the run."""
        return command_of(self.study, self.recipe)

    @property
    def departures(self) -> list[str]:
        """Settings that differ from those of the paper scale."""
        paper = settings_of(self.study, self.recipe, "paper")
        return [
            f"{name}: {spell(value)} instead of {spell(paper[name])}"
            for name, value in self.recipe.settings.items()
            if name in paper and value != paper[name]
        ]

    @property
    def seconds(self) -> float:
        """How long all pieces took together."""
        return sum({row["piece"]: float(row["seconds"]) for row in self.rows}.values())

    @property
    def versions(self) -> str:
        """With what most rows were computed."""
        return Counter(str(row["versions"]) for row in self.rows).most_common(1)[0][0]


@final
@dataclass(frozen=True)
class Result:
    """An entry of the catalogue with what was run of it.

    Attributes:
        entry: The entry.
        shown: The finished run that stands for it, if there is one.
        started: Runs that were interrupted.
    """

    entry: Entry
    shown: Shown | None = None
    started: Sequence[Progress] = ()

    @property
    def status(self) -> Status:
        """At a glance."""
        if self.shown is not None:
            return self.shown.verdict
        if self.started:
            return "started"
        return "planned" if self.entry.status == "planned" else "not run"

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        facts: dict[str, Any] = {"id": self.entry.id, "status": self.status, "claims": []}
        if self.started:
            facts["started"] = [
                {"scale": p.recipe.scale, "seed": p.recipe.seed, "done": p.done, "total": p.total}
                for p in self.started
            ]
        if (shown := self.shown) is None:
            return facts
        return {
            **facts,
            "scale": shown.recipe.scale,
            "command": shown.command,
            "claims": [
                {
                    "text": r.claim.text,
                    "ours": r.finding.ours,
                    "verdict": r.verdict,
                    "cause": r.cause,
                    "source": "dubio" if r.claim.ours else "paper",
                }
                for r in shown.rulings
            ],
        }


def collect(root: Path) -> tuple[list[Result], list[str]]:
    """What there is for every entry of the catalogue, and files that could not be used.

    The code of a study is loaded only if there are runs of it.
    """
    problems = [
        f"{root / number}: rows under a former id, which are not shown; the study is now called "
        f"{author}/…"
        for author, number in NUMBERS.items()
        if (root / number).is_dir()
    ]
    results = []
    for entry in catalogue.ENTRIES:
        folders = runs_of(entry, root)
        result = Result(entry)
        if folders:
            study = entry.load()
            try:
                result = choose(entry, study, folders, problems)
            except Exception as error:  # rows that do not fit today's code cost this study alone
                problems.append(misfit(entry, error))
        results.append(result)
    return results, problems


def runs_of(entry: Entry, root: Path) -> list[Path]:
    """The folders of its runs, if there is code that can read them."""
    if not entry.module:
        return []
    return sorted(f for f in (root / entry.id).glob("*-*") if (f / "run.json").exists())


def misfit(entry: Entry, error: Exception) -> str:
    """Says that stored rows are not those that a study expects."""
    return (
        f"{entry.id}: its rows do not fit its code ({type(error).__name__}: {error}); run it again."
    )


def choose(entry: Entry, study: Study[Any], folders: Sequence[Path], problems: list[str]) -> Result:
    """The largest scale; at one scale, settings and seed as they come with it, else the newest."""
    found: list[tuple[tuple[int, bool, float], Recipe, Rows]] = []
    started: list[Progress] = []
    for folder in folders:
        try:
            recipe = read_recipe(folder)
            if recipe.revision != study.computation.revision:
                problems.append(f"{folder}: from an older revision of the study; run it again.")
                continue
            rows = read_rows(folder)
        except StoreError as error:
            problems.append(str(error))
            continue
        if rows is None:
            started.append(progress_of(study, recipe, folder))
            continue
        plain = not overrides(study, recipe) and recipe.seed == 0
        rank = (SCALES.index(recipe.scale), plain, (folder / "rows.jsonl").stat().st_mtime)
        found.append((rank, recipe, rows))
    if not found:
        return Result(entry, None, started)
    found.sort(key=lambda run: run[0], reverse=True)
    _, recipe, rows = found[0]
    rulings = [rule_on(claim, rows, recipe.scale) for claim in study.page.claims]
    others = [other for _, other, _ in found[1:]]
    return Result(entry, Shown(study, recipe, rows, rulings, others), started)


def progress_of(study: Study[Any], recipe: Recipe, folder: Path) -> Progress:
    """How far an interrupted run is."""
    config = config_of(study.computation.scales[recipe.scale], recipe.settings)
    pieces = {piece_key(piece) for piece in study.computation.pieces(config)}
    return Progress(recipe, len(stored_keys(folder) & pieces), len(pieces))


def settings_of(study: Study[Any], recipe: Recipe, scale: Any) -> Mapping[str, Any]:
    """The settings that come with a scale."""
    return Recipe.of(study, scale, study.computation.scales[scale], recipe.seed).settings


def overrides(study: Study[Any], recipe: Recipe) -> dict[str, Any]:
    """The settings that were given on the command line."""
    plain = settings_of(study, recipe, recipe.scale)
    return {name: value for name, value in recipe.settings.items() if value != plain.get(name)}


def command_of(study: Study[Any], recipe: Recipe) -> str:
    """The command that makes a run."""
    words = [f"dubio run {study.id} --scale {recipe.scale} --seed {recipe.seed}"]
    return " ".join([*words, as_options(overrides(study, recipe))]).strip()
