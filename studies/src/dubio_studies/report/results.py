"""Which run stands for a study, what its claims come to, and how far other runs are."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

from dubio_studies import catalogue
from dubio_studies.catalogue import Entry
from dubio_studies.framework.claims import Ruling, Verdict, rule_on
from dubio_studies.framework.code import fingerprint
from dubio_studies.framework.former_ids import present_id
from dubio_studies.framework.options import as_options, config_of, spell
from dubio_studies.framework.recipe import Recipe, piece_key
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.store import StoreError, read_recipe, read_rows, stored_keys
from dubio_studies.framework.study import SCALES, Study

Status = Literal[Verdict, "started", "not run", "nothing to compute"]
Code = Literal["today's", "earlier", "unknown"]
"""Which code of a study has made its rows."""

SERIOUS: tuple[Verdict, ...] = ("refuted", "behind", "undecided", "goes further", "holds")
"""Of all verdicts on a study the first one found here is shown for it."""


@final
@dataclass(frozen=True)
class Progress:
    """A run that is not finished.

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
    def is_altered(self) -> bool:
        """Whether settings or seed are not those that come with the scale."""
        return has_own_settings(self.study, self.recipe)

    @property
    def verdict(self) -> Verdict:
        """The most serious one on a claim of the paper; of ours only if there is no other."""
        found = {r.verdict for r in self.rulings if not r.claim.ours}
        found = found or {r.verdict for r in self.rulings}
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
            f"{name}: {spell(value)} instead of {spell(paper[name])} at the scale paper"
            for name, value in self.recipe.settings.items()
            if name in paper and value != paper[name]
        ]

    @property
    def seconds(self) -> float:
        """How long all pieces took together."""
        return sum({row["piece"]: float(row["seconds"]) for row in self.rows}.values())

    @property
    def code(self) -> Code:
        """Whether the code of today has made all rows; rows of long ago do not say."""
        codes = {row.get("code") for row in self.rows}
        if None in codes:
            return "unknown"
        return "today's" if codes == {fingerprint(self.study.computation.run)} else "earlier"

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
        started: Runs that are not finished.
        unusable: What is wrong with other runs.
    """

    entry: Entry
    shown: Shown | None = None
    started: Sequence[Progress] = ()
    unusable: Sequence[str] = ()

    @property
    def status(self) -> Status:
        """At a glance."""
        if self.shown is not None:
            return self.shown.verdict
        if self.started:
            return "started"
        return "not run" if self.entry.module else "nothing to compute"

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
            "code": shown.code,
            "command": shown.command,
            "claims": [
                {
                    "text": r.claim.text,
                    "ours": r.finding.ours,
                    "verdict": r.verdict,
                    "cause": r.cause,
                    "source": "dubio" if is_own(self.entry, r) else "paper",
                }
                for r in shown.rulings
            ],
        }


def is_own(entry: Entry, ruling: Ruling) -> bool:
    """Whether no paper of ours makes the claim."""
    return ruling.claim.ours or entry.paper is None


def collect(root: Path, family: str = "") -> tuple[list[Result], list[str]]:
    """What there is for every entry of the catalogue, and files that could not be used.

    The code of a study is loaded only if there are runs of it.

    Args:
        root: The folder of all runs.
        family: If given, only its entries are looked at.
    """
    problems = [] if family else strangers(root)
    entries = [entry for entry in catalogue.ENTRIES if family in ("", entry.family)]
    return [look(entry, root, problems) for entry in entries], problems


def strangers(root: Path) -> list[str]:
    """Runs that belong to no study."""
    known = {entry.id for entry in catalogue.ENTRIES if entry.module}
    there = sorted({path.parent for path in root.glob("*/*/*-*") if holds_a_run(path)})
    ids = {folder: folder.relative_to(root).as_posix() for folder in there}
    problems = []
    for folder, name in ids.items():
        if name not in known:
            new = present_id(name)
            advice = f"; the study is now called {new}" if new in known else ""
            problems.append(f"{folder}: runs of no study, which are not shown{advice}.")
    return problems


def look(entry: Entry, root: Path, problems: list[str]) -> Result:
    """What there is of an entry; what is wrong is added to the problems."""
    folders = sorted(f for f in (root / entry.id).glob("*-*") if holds_a_run(f))
    if not entry.module or not folders:
        return Result(entry)
    study = entry.load()
    runs, started, unusable = [], [], []
    for folder in folders:
        try:
            found = read_run(study, folder)
        except StoreError as error:
            unusable.append(str(error))
        except Exception as error:  # whatever a study of today makes of yesterday's settings
            unusable.append(misfit(str(folder), error))
        else:
            if isinstance(found, Progress):
                started.append(found)
            else:
                runs.append(found)
    runs.sort(key=lambda run: run.rank, reverse=True)
    for run in runs[:1]:
        examined = run.name == study.page.examined
        try:
            rulings = [
                rule_on(claim, run.rows, run.recipe.scale, examined=examined)
                for claim in study.page.claims
            ]
        except Exception as error:  # rows that do not fit today's code
            unusable.append(misfit(str(root / entry.id / run.name), error))
            break
        problems += unusable
        others = [other.recipe for other in runs[1:]]
        shown = Shown(study, run.recipe, run.rows, rulings, others)
        return Result(entry, shown, started, unusable)
    problems += unusable
    return Result(entry, None, started, unusable)


def holds_a_run(folder: Path) -> bool:
    """Whether any file of a run is there."""
    return any((folder / name).exists() for name in ("run.json", "rows.jsonl", "pieces"))


def misfit(what: str, error: Exception) -> str:
    """Says that what is stored is not what a study expects."""
    reason = f"{type(error).__name__}: {error}"
    return (
        f"{what}: its rows do not fit the code of the study ({reason}). If the study has changed, "
        "delete the folder and run it again; else other settings may help."
    )


class _Run(NamedTuple):
    """A finished run, and how much it deserves to be shown."""

    name: str
    recipe: Recipe
    rows: Rows
    rank: tuple[int, bool, float]


def read_run(study: Study[Any], folder: Path) -> _Run | Progress:
    """A run, or how far it is.

    Of several the largest scale is shown; at one scale that with settings and seed as they come
    with it, else the newest. Rows of pieces that the study no longer has are left out.
    """
    recipe = read_recipe(folder)
    if recipe.study != study.id:
        raise StoreError(f"{folder}: expected a run of {study.id}, got one of {recipe.study}.")
    if recipe.revision != study.computation.revision:
        raise StoreError(f"{folder}: from an older revision of the study; run it again.")
    config = config_of(study.computation.scales[recipe.scale], recipe.settings)
    pieces = {piece_key(piece) for piece in study.computation.pieces(config)}
    rows = read_rows(folder)
    if rows is None:
        return Progress(recipe, len(stored_keys(folder) & pieces), len(pieces))
    if missing := pieces - set(rows.distinct("piece")):
        raise StoreError(
            f"{folder / 'rows.jsonl'}: expected rows of {len(pieces)} pieces, got none of "
            f"{len(missing)} of them; run the study again, which computes what is missing."
        )
    rows = Rows([row for row in rows if row["piece"] in pieces])
    plain = not has_own_settings(study, recipe)
    rank = (SCALES.index(recipe.scale), plain, (folder / "rows.jsonl").stat().st_mtime)
    return _Run(folder.name, recipe, rows, rank)


def settings_of(study: Study[Any], recipe: Recipe, scale: Any) -> Mapping[str, Any]:
    """The settings that come with a scale."""
    return Recipe.of(study, scale, study.computation.scales[scale], recipe.seed).settings


def overrides(study: Study[Any], recipe: Recipe) -> dict[str, Any]:
    """The settings that were given on the command line."""
    plain = settings_of(study, recipe, recipe.scale)
    return {name: value for name, value in recipe.settings.items() if value != plain.get(name)}


def has_own_settings(study: Study[Any], recipe: Recipe) -> bool:
    """Whether settings or seed are not those that come with the scale."""
    return bool(overrides(study, recipe)) or recipe.seed != 0


def command_of(study: Study[Any], recipe: Recipe) -> str:
    """The command that makes a run."""
    words = [f"dubio run {study.id} --scale {recipe.scale} --seed {recipe.seed}"]
    return " ".join([*words, as_options(overrides(study, recipe))]).strip()
