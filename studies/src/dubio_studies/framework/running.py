"""Running a study: what is stored is not computed again, what is computed is stored at once."""

import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from dubio.report.progress import Progress
from dubio_studies.framework.code import fingerprint
from dubio_studies.framework.engine import Engine, Outcome, outcomes
from dubio_studies.framework.recipe import Recipe, piece_key
from dubio_studies.framework.rows import Row, Rows
from dubio_studies.framework.store import Pieces, Store, refuse_reserved
from dubio_studies.framework.study import Scale, Study


class PiecesFailed(Exception):  # noqa: N818 - says what happened
    """Some pieces raised an error; the others are stored."""


@final
@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        folder: Where its rows are.
        rows: All of them, in the order of the pieces.
        computed: How many pieces were computed now.
        stored: How many were there before.
    """

    folder: Path
    rows: Rows
    computed: int
    stored: int


def run(
    study: Study[Any],
    scale: Scale,
    config: Any,
    *,
    seed: int = 0,
    root: Path = Path("results"),
    engine: Engine | None = None,
    jobs: int = 1,
    say: Callable[[str], None] = lambda message: print(message, file=sys.stderr, flush=True),
) -> Run:
    """Compute what is missing of a run and return all of its rows.

    Args:
        study: What to run.
        scale: The name of the config's scale.
        config: The config, which may differ from that of the scale.
        seed: Other seeds give other random numbers.
        root: The folder of all runs.
        engine: Where to compute.
        jobs: How many processes.
        say: Takes messages to the user.
    """
    recipe = Recipe.of(study, scale, config, seed)
    store = Store(root, recipe)
    computation = study.computation
    code = fingerprint(computation.run)
    pieces = {piece_key(piece): piece for piece in computation.pieces(config)}
    refuse_reserved(*pieces.values())
    with store.locked(say):
        done: Pieces = {key: rows for key, rows in store.load().items() if key in pieces}
        for path in store.damaged:
            say(f"{path}: damaged; set aside as {path.name}.damaged, missing pieces are recomputed")
        missing = [key for key in pieces if key not in done]
        stored = len(done)
        if stored and missing:
            say(f"{stored} of {len(pieces)} pieces are stored; computing the others")
        failures: list[Outcome] = []
        work = [(pieces[key], recipe.seed_of(pieces[key])) for key in missing]
        with (
            Progress(f"{study.id} ({scale})", len(work)) as progress,
            closing(outcomes(computation.run, config, work, engine or Engine(), jobs)) as results,
        ):
            for outcome in results:
                if outcome.failure:
                    failures.append(outcome)
                else:
                    done[piece_key(outcome.piece)] = keep(store, outcome, code)
                progress.advance()
        if failures:
            raise PiecesFailed(describe(failures, len(pieces), store.folder))
        in_order = {key: done[key] for key in pieces}
        if missing or not store.finished or store.scattered:
            store.finish(in_order)
    return Run(
        store.folder,
        Rows([row for rows in in_order.values() for row in rows]),
        computed=len(missing),
        stored=stored,
    )


def keep(store: Store, outcome: Outcome, code: str) -> list[Row]:
    """Store the rows of a piece."""
    return store.save(
        outcome.piece,
        outcome.measurements,
        seconds=outcome.seconds,
        versions=outcome.versions,
        code=code,
    )


def describe(failures: list[Outcome], total: int, folder: Path) -> str:
    """What failed, with the first traceback."""
    first = failures[0]
    return (
        f"{len(failures)} of {total} pieces failed, the first of them {dict(first.piece)}:\n\n"
        f"{first.failure}\nFinished pieces are kept in {folder}; once the cause is removed, the "
        f"same command computes the others."
    )
