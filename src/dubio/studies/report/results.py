"""Which run stands for a study, and what its claims come to."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

from dubio.studies import catalogue
from dubio.studies.catalogue import Entry
from dubio.studies.options import as_options, spell
from dubio.studies.recipe import Recipe
from dubio.studies.rows import Rows
from dubio.studies.store import StoreError, read_recipe, read_rows
from dubio.studies.study import SCALES, Claim, Finding, Study, Verdict

Status = Literal["reproduces", "better", "worse", "not run", "planned"]
STATUSES: tuple[Status, ...] = ("reproduces", "better", "worse", "not run", "planned")


@final
@dataclass(frozen=True)
class Shown:
    """The run that is shown for a study.

    Attributes:
        study: The study.
        recipe: Of the run.
        rows: Of the run.
        findings: What they say about each claim.
        others: Recipes of other finished runs.
    """

    study: Study[Any]
    recipe: Recipe
    rows: Rows
    findings: Sequence[tuple[Claim, Finding]]
    others: Sequence[Recipe]

    @property
    def verdict(self) -> Verdict:
        """Worse if any claim is; else better if any is."""
        verdicts = {finding.verdict for _, finding in self.findings}
        order: tuple[Verdict, ...] = ("worse", "better", "reproduces")
        return next((verdict for verdict in order if verdict in verdicts), "reproduces")

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
    """An entry of the catalogue with what was run of it."""

    entry: Entry
    shown: Shown | None

    @property
    def status(self) -> Status:
        """At a glance."""
        if self.shown is not None:
            return self.shown.verdict
        return "planned" if self.entry.status == "planned" else "not run"

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        shown = self.shown
        if shown is None:
            return {"id": self.entry.id, "status": self.status, "claims": []}
        return {
            "id": self.entry.id,
            "status": self.status,
            "scale": shown.recipe.scale,
            "command": shown.command,
            "claims": [
                {"text": claim.text, "verdict": finding.verdict, "ours": finding.ours}
                for claim, finding in shown.findings
            ],
        }


def collect(root: Path) -> tuple[list[Result], list[str]]:
    """What there is for every entry of the catalogue, and files that could not be used."""
    problems: list[str] = []
    results = []
    for entry in catalogue.ENTRIES:
        try:
            shown = choose(entry, root, problems)
        except Exception as error:  # other rows than the code of today has cost this study alone
            problems.append(misfit(entry, error))
            shown = None
        results.append(Result(entry, shown))
    return results, problems


def misfit(entry: Entry, error: Exception) -> str:
    """Says that stored rows are not those that a study expects."""
    return (
        f"{entry.id}: its rows do not fit its code ({type(error).__name__}: {error}); run it again."
    )


def choose(entry: Entry, root: Path, problems: list[str]) -> Shown | None:
    """The largest scale; at one scale, settings and seed as they come with it, else the newest."""
    if entry.module is None:
        return None
    study = entry.load()
    found: list[tuple[tuple[int, bool, float], Recipe, Rows]] = []
    for folder in sorted((root / entry.id).glob("*-*")):
        try:
            rows = read_rows(folder)
            if rows is None:
                continue
            recipe = read_recipe(folder)
        except StoreError as error:
            problems.append(str(error))
            continue
        if recipe.revision != study.revision:
            problems.append(f"{folder}: from an older revision of the study; run it again.")
            continue
        plain = not overrides(study, recipe) and recipe.seed == 0
        rank = (SCALES.index(recipe.scale), plain, (folder / "rows.jsonl").stat().st_mtime)
        found.append((rank, recipe, rows))
    if not found:
        return None
    found.sort(key=lambda run: run[0], reverse=True)
    _, recipe, rows = found[0]
    findings = [(claim, claim.judge(rows)) for claim in study.claims]
    return Shown(study, recipe, rows, findings, [other for _, other, _ in found[1:]])


def settings_of(study: Study[Any], recipe: Recipe, scale: Any) -> Mapping[str, Any]:
    """The settings that come with a scale."""
    return Recipe.of(study, scale, study.scales[scale], recipe.seed).settings


def overrides(study: Study[Any], recipe: Recipe) -> dict[str, Any]:
    """The settings that were given on the command line."""
    plain = settings_of(study, recipe, recipe.scale)
    return {name: value for name, value in recipe.settings.items() if value != plain.get(name)}


def command_of(study: Study[Any], recipe: Recipe) -> str:
    """The command that makes a run."""
    words = [f"dubio run {study.id} --scale {recipe.scale} --seed {recipe.seed}"]
    return " ".join([*words, as_options(overrides(study, recipe))]).strip()
