"""A model: its settings, the names of its items and users, and its file."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from scipy.sparse import csr_array
from torch import Tensor

from dubio.recommend import storage
from dubio.recommend.arguments import Check, check_attributes, whole
from dubio.recommend.catalogue import Catalogue, Ids
from dubio.recommend.histories import interactions

AnyModel = TypeVar("AnyModel", bound="Model")


class Model(ABC):
    """A model learned from histories, with its settings.

    Attributes:
        draws: Number of draws that `recommend` averages by default; saved.
        catalogue: External ids of users and items, if set. The next `fit` drops it.
    """

    _checks: ClassVar[Mapping[str, Check]] = {}  # of the arguments of __init__
    draws: int = 20
    _items: int = 0
    _catalogue: Catalogue | None = None
    _learnt_with: Mapping[str, Any] | None = None  # the arguments of __init__ at the last fit

    @abstractmethod
    def _state(self) -> dict[str, Tensor]:
        """Return the learned tensors."""

    @abstractmethod
    def _set_state(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `_state` has given. ``self._items`` is set already."""

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of __init__: attributes of the same names."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def _settings(self) -> dict[str, Any]:
        """Return the arguments of __init__ that the weights belong to, as JSON can hold them."""
        return dict(self._arguments() if self._learnt_with is None else self._learnt_with)

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> Self:
        return cls(**settings)

    def _notes(self) -> dict[str, Any]:
        """Return further values for `save`, in types of JSON."""
        return {"draws": whole(0)("draws", self.draws)}

    def _set_notes(self, notes: dict[str, Any]) -> None:
        self.draws = notes.get("draws", self.draws)

    def _check(self) -> None:
        """Check the arguments of __init__."""
        check_attributes(self, self._checks)

    def _training_data(self, user_items: Any) -> csr_array:
        """Return histories to learn from, after checking changed settings again."""
        self._check()
        given = interactions(user_items)
        if not self._items:
            check_catalogue(self._catalogue, given.shape[1])
        return given

    def _learnt(self, items: int) -> None:
        """Take note of a fit that is done. Names that were set for an earlier one go."""
        if self._items:
            self._catalogue = None
        self._items = items
        self._learnt_with = self._arguments()

    def __repr__(self) -> str:
        """Return the class, and the arguments that are not the usual ones."""
        usual = inspect.signature(type(self)).parameters
        shown = [
            f"{name}={value.__name__ if isinstance(value, type) else repr(value)}"
            for name, value in self._arguments().items()
            if value != usual[name].default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    @property
    def num_items(self) -> int:
        """The number of items, known after `fit`."""
        if not self._items:
            raise RuntimeError(
                f"{type(self).__name__}: expected a fitted model, got one that has seen no data; "
                "call fit(user_items) first"
            )
        return self._items

    @property
    def catalogue(self) -> Catalogue | None:
        """External ids, as `from_frame` gives them; saved with the model, dropped by a new fit."""
        return self._catalogue

    @catalogue.setter
    def catalogue(self, catalogue: Catalogue | None) -> None:
        check_catalogue(catalogue, self._items)
        self._catalogue = catalogue

    @property
    def _item_names(self) -> Ids | None:
        return None if self._catalogue is None else self._catalogue.items

    def save(self, path: str | Path) -> None:
        """Save the model to a file: settings, weights and the catalogue.

        Settings are those of the last `fit`, and ``draws``. Ids of the catalogue must be numbers,
        strings, bytes or tuples of these.

        Args:
            path: A file; usually its name ends with ``.safetensors``.
        """
        saved = storage.Saved(
            kind=type(self).__name__,
            settings=self._settings(),
            items=self.num_items,
            tensors=self._state(),
            catalogue=self.catalogue,
            notes=self._notes(),
        )
        storage.write(Path(path), saved)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a model that `save` has written. No code in the file is run.

        Args:
            path: The file. ``Recommender.load`` loads any model, ``EASE.load`` only an EASE.
        """
        saved = storage.read(Path(path))
        kinds = {kind.__name__: kind for kind in _kinds(cls)}
        if saved.kind not in kinds:
            raise ValueError(
                f"{path}: expected one of {', '.join(sorted(kinds))}, got {saved.kind}; load it "
                f"with that class, or with Recommender.load after an import of it"
            )
        try:
            model = kinds[saved.kind]._from_settings(saved.settings)
        except TypeError as error:
            raise ValueError(
                f"{path}: expected the settings of {saved.kind}, got others ({error}); load it "
                "with the version of dubio that has saved it, or restore a copy"
            ) from error
        model._learnt(saved.items)
        model._set_state(saved.tensors)
        model._set_notes(saved.notes)
        model.catalogue = saved.catalogue
        return model


def check_catalogue(catalogue: Catalogue | None, items: int) -> None:
    """Raise an error unless these are the names of this many items."""
    if not isinstance(catalogue, Catalogue | None):
        raise TypeError(
            f"catalogue: expected a Catalogue, got {type(catalogue).__name__}; give "
            "from_frame(frame).catalogue, or recommend.Catalogue(recommend.Ids(users), "
            "recommend.Ids(items))"
        )
    if catalogue is not None and items and len(catalogue.items) != items:
        raise ValueError(
            f"catalogue: expected ids of the {items} items of the model, got "
            f"{len(catalogue.items)}; set that of the training data"
        )


def _kinds(kind: type[AnyModel]) -> Iterator[type[AnyModel]]:
    """Yield a class and all that are derived from it."""
    yield kind
    for derived in kind.__subclasses__():
        yield from _kinds(derived)
