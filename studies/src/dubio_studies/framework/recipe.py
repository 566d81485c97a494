"""Recipes: what decides the rows of a run, its hash, and the seeds that follow from it."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from dubio_studies.framework.former_ids import former_id
from dubio_studies.framework.study import Piece, Scale, Seed, Study


@final
@dataclass(frozen=True)
class Recipe:
    """All that decides the rows of a run.

    Attributes:
        study: The study's id.
        scale: The scale that was asked for.
        seed: The user's seed.
        revision: The study's revision.
        settings: The fields of the config.
    """

    study: str
    scale: Scale
    seed: int
    revision: int
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, study: Study[Any], scale: Scale, config: Any, seed: int) -> "Recipe":
        """The recipe of a study with a config."""
        settings = json.loads(canonical(dataclasses.asdict(config)))  # tuples become lists
        return cls(study.id, scale, seed, study.computation.revision, settings)

    @property
    def hash(self) -> str:
        """Eight hexadecimal digits that stand for this recipe."""
        return digest([former_id(self.study), self.settings, self.seed, self.revision])[:8]

    def seed_of(self, piece: Piece) -> Seed:
        """The seeds of a piece."""
        study = former_id(self.study)
        own = digest([study, self.settings, dict(piece), self.seed])
        common = digest([study, self.seed])
        return Seed(own=int(own[:8], 16), common=int(common[:8], 16), given=self.seed)

    def as_dict(self) -> dict[str, Any]:
        """The recipe as JSON has it, with its hash."""
        return {**dataclasses.asdict(self), "hash": self.hash}


def piece_key(piece: Piece) -> str:
    """Twelve hexadecimal digits that stand for a piece."""
    return digest(dict(piece))[:12]


def digest(value: Any) -> str:
    """SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def canonical(value: Any) -> str:
    """The one way to write a value as JSON; it refuses NaN and infinity."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
