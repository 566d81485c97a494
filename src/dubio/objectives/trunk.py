"""The trunk: results before the first learnable mask, remembered for later passes.

The tape of `dubio.draws` has the operations of a pass; here results are needed, with all that
automatic differentiation knows of them, so that later passes train the same trunk.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from torch import Tensor
from torch.utils._pytree import tree_leaves

from dubio.draws.trunk import MEMORY
from dubio.noise.perturbations import Draw
from dubio.noise.plainly import Plainly
from dubio.noise.protocols import Perturbation, RandomNumbers
from dubio.noise.vectorised import is_vectorised

# After them Python may write into the memory of a tensor, and no version is counted.
_UNCOUNTED = frozenset(
    {Tensor.data.__get__}  # type: ignore[attr-defined]
    | {getattr(Tensor, name) for name in MEMORY if hasattr(Tensor, name)}
)

_Result = TypeVar("_Result")


class TrunkMemory(Plainly):
    """Carries functions out and remembers the results, up to the first learnable mask.

    A trunk that writes into tensors that it has not made itself is not to be replayed: a later pass
    has others in their place, which would stay as they are.
    """

    def __init__(self) -> None:
        self.results: list[tuple[object, Any]] = []
        self._open = True
        self._clean = True  # whether nothing was written that it has not made, or out of sight
        self._versions: list[tuple[Tensor, int]] = []

    def begin(self, outside: Iterable[Tensor]) -> None:
        """Begin the pass, with tensors that later passes replace."""
        self._note(outside)

    def end_of_trunk(self) -> None:
        """Remember no more."""
        if self._open:
            self._clean = self._clean and self._unwritten
            self._open = False
            self._note(x for x in tree_leaves(self.results) if isinstance(x, Tensor))

    @property
    def intact(self) -> bool:
        """Whether the trunk wrote into its own results alone, and nothing did since."""
        return not self._open and self._clean and self._unwritten

    def _note(self, tensors: Iterable[Tensor]) -> None:
        """Keep the versions of some tensors, which are not counted inside of `torch.vmap`."""
        counted = [x for x in tensors if not x.is_inference()]
        self._clean = self._clean and not any(map(is_vectorised, counted))
        self._versions = [(x, x._version) for x in counted]

    @property
    def _unwritten(self) -> bool:
        return all(x._version == version for x, version in self._versions)

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call the function."""
        if function in _UNCOUNTED:
            self._clean = False
        return self._remember(function, super().call(function, args, kwargs))

    def perturb(self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor) -> Tensor:
        """Apply the noise of the one draw."""
        result = super().perturb(perturbation, numbers, x)
        if isinstance(perturbation, Draw):  # which later passes have from the first
            return result
        return self._remember(type(perturbation), result)

    def perturb_in_place(
        self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor
    ) -> Tensor:
        """Apply the noise of the one draw to x itself."""
        return self._remember(
            type(perturbation), super().perturb_in_place(perturbation, numbers, x)
        )

    def _remember(self, what: object, result: _Result) -> _Result:
        if self._open:
            self.results.append((what, result))
        return result


class TrunkReplay(Plainly):
    """Gives the results of a trunk again as long as the network asks for the same functions."""

    def __init__(self, trunk: TrunkMemory) -> None:
        self._results = iter(trunk.results if trunk.intact else ())

    def end_of_trunk(self) -> None:
        """Compute from here on."""
        self._results = iter(())

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the known result of the function, or a new one."""
        known = self._known(function)
        return super().call(function, args, kwargs) if known is None else known[0]

    def perturb(self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor) -> Tensor:
        """Return the known result of the noise, or the same noise applied to x."""
        if isinstance(perturbation, Draw):
            return super().perturb(perturbation, numbers, x)
        known: tuple[Tensor] | None = self._known(type(perturbation))
        return super().perturb(perturbation, numbers, x) if known is None else known[0]

    def perturb_in_place(
        self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor
    ) -> Tensor:
        """Return the known result of the noise, or the same noise applied to x itself."""
        known: tuple[Tensor] | None = self._known(type(perturbation))
        return super().perturb_in_place(perturbation, numbers, x) if known is None else known[0]

    def _known(self, what: object) -> tuple[Any] | None:
        function, result = next(self._results, (None, None))
        if function is what:
            return (result,)
        self.end_of_trunk()
        return None
