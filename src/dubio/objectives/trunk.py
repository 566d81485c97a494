"""What a network computes before its first learnable mask, remembered for later passes.

The tape of `dubio.draws` has the operations of a pass; here results are needed, with all that
automatic differentiation knows of them, so that later passes train the same trunk.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor
from torch.utils._pytree import tree_leaves

from dubio.masks.learnable import Gate, Gated, LearnableBernoulli
from dubio.noise.perturbations import Draw
from dubio.noise.plainly import Plainly
from dubio.noise.protocols import Perturbation, RandomNumbers

_Result = TypeVar("_Result")


class TrunkMemory(Plainly):
    """Carries functions out and remembers the results, up to the first learnable mask."""

    def __init__(self) -> None:
        self.results: list[tuple[object, Any]] = []
        self._open = True
        self._versions: list[tuple[Tensor, int]] = []

    def end_of_trunk(self) -> None:
        """Remember no more."""
        if self._open:
            self._open = False
            tensors = (x for x in tree_leaves(self.results) if isinstance(x, Tensor))
            self._versions = [(x, x._version) for x in tensors if not x.is_inference()]

    @property
    def intact(self) -> bool:
        """Whether nothing has been written over the results since."""
        return not self._open and all(x._version == version for x, version in self._versions)

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call the function."""
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
        """The known result of the function, or a new one."""
        known = self._known(function)
        return super().call(function, args, kwargs) if known is None else known[0]

    def perturb(self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor) -> Tensor:
        """The known result of the noise, or the same noise applied to x."""
        if isinstance(perturbation, Draw):
            return super().perturb(perturbation, numbers, x)
        known: tuple[Tensor] | None = self._known(type(perturbation))
        return super().perturb(perturbation, numbers, x) if known is None else known[0]

    def perturb_in_place(
        self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor
    ) -> Tensor:
        """The known result of the noise, or the same noise applied to x itself."""
        known: tuple[Tensor] | None = self._known(type(perturbation))
        return super().perturb_in_place(perturbation, numbers, x) if known is None else known[0]

    def _known(self, what: object) -> tuple[Any] | None:
        function, result = next(self._results, (None, None))
        if function is what:
            return (result,)
        self.end_of_trunk()
        return None


def ending(executor: TrunkMemory | TrunkReplay, gate: Gate) -> Gate:
    """The same gate, with a word to the executor that the trunk ends there."""

    def at_a_mask(mask: LearnableBernoulli, keep: Tensor, noise: Tensor, axis: int) -> Gated:
        executor.end_of_trunk()
        return gate(mask, keep, noise, axis)

    return at_a_mask
