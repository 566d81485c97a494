"""Run a pass without recording."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from dubio.noise.protocols import Perturbation, RandomNumbers


class Plainly:
    """Carries functions out as they are, for one draw."""

    def perturb(self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor) -> Tensor:
        """Apply the noise of the one draw."""
        return perturbation(numbers, x)[0]

    def perturb_in_place(
        self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor
    ) -> Tensor:
        """Apply the noise of the one draw to x itself."""
        return x.copy_(perturbation(numbers, x)[0])

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call the function."""
        return function(*args, **kwargs)

    def own_randomness(self, name: str) -> None:
        """Nothing to note: the next draw calls the network again."""
