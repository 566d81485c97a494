"""What matters of a torch operation to who records it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch


@dataclass(frozen=True)
class Traits:
    """What matters of an operation.

    Attributes:
        random: Whether it draws random numbers.
        reads: Whether Python sees values of its arguments.
        shapes: Whether the shape of its result depends on values.
        written: Positions and names of the arguments that it writes into.
    """

    random: bool = False
    reads: bool = False
    shapes: bool = False
    written: tuple[tuple[int, str], ...] = ()


@cache
def traits_of(function: Any) -> Traits:
    """Return the traits of an operation."""
    if not isinstance(function, torch._ops.OpOverload):
        return Traits()
    # The dropout of attention is on the tape already.
    fed = "scaled_dot_product" in str(function)
    return Traits(
        random=torch.Tag.nondeterministic_seeded in function.tags and not fed,
        reads=torch.Tag.data_dependent_output in function.tags,
        shapes=torch.Tag.dynamic_output_shape in function.tags,
        written=tuple(
            (i, argument.name)
            for i, argument in enumerate(function._schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ),
    )


def written(traits: Traits, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the arguments that an operation writes into."""
    return [
        args[position] if position < len(args) else kwargs.get(name)
        for position, name in traits.written
    ]
