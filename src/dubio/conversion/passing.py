"""Operations that commute with a non-negative scaling of units, and so let a dropout pass.

If g(s ∘ x) = s ∘ g(x) for every s ≥ 0 with one entry per unit, then a mask in front of g is the
same as a mask behind it, and the dropout belongs to the weights of the layer that comes next.
"""

import re
from collections.abc import Callable
from typing import Any, final

from torch import Tensor, nn
from torch.nn.modules import pooling
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.padding import _ReflectionPadNd, _ReplicationPadNd
from torch.utils._pytree import tree_leaves

from dubio.conversion.kinds import is_plain

_PASSING_MODULES = (
    nn.Identity,
    nn.Flatten,
    nn.Unflatten,
    nn.ReLU,
    nn.LeakyReLU,
    nn.PReLU,
    nn.ZeroPad1d,
    nn.ZeroPad2d,
    nn.ZeroPad3d,
    _ReflectionPadNd,
    _ReplicationPadNd,
)
_POOLING_MODULES = (
    pooling._AdaptiveAvgPoolNd,
    pooling._AdaptiveMaxPoolNd,
    pooling._AvgPoolNd,
    pooling._MaxPoolNd,
)

_PASSING_FUNCTION = re.compile(
    "relu|leaky_relu|prelu|contiguous"
    "|getitem|select|narrow|chunk|split|tensor_split|unbind|expand|expand_as"
    "|clone|detach|data|alias|to|type|type_as|float|double|half|bfloat16"
)
_REARRANGING_FUNCTION = re.compile(
    "view|view_as|reshape|reshape_as|flatten|unflatten|ravel|squeeze|unsqueeze"
    "|permute|transpose|swapaxes|swapdims|movedim|moveaxis|t|T|mT"
)
_POOLING_FUNCTION = re.compile("(adaptive_)?(avg|max)_pool[123]d(_with_indices)?")
_PRODUCT = re.compile("[ir]?mul|multiply")
_QUOTIENT = re.compile("i?div|divide|i?truediv|true_divide")
_QUESTION = re.compile(  # that a tensor's values have no part in, or only for a reader
    "size|dim|ndimension|stride|numel|nelement|len|is_contiguous|is_floating_point|is_complex"
    "|is_signed|get_device|element_size|storage_offset|is_inference|is_same_size|repr|format|hash"
)
_WORDS = {
    "an addition": re.compile("[ir]?(add|sub)|subtract"),
    "a concatenation": re.compile("cat|concat|concatenate|[hvd]?stack|column_stack"),
    "a normalisation": re.compile(".*_norm|normalize"),
    "an assignment": re.compile("setitem|copy|index_(copy|put)"),
    "a matrix product": re.compile("[ir]?matmul|mm|bmm|einsum"),
}


def passes(module: nn.Module) -> bool:
    """Return whether a module lets a scaling of any unit pass."""
    if isinstance(module, _DropoutNd):
        return module.p == 0 and is_plain(module, _DropoutNd)
    return is_plain(module, _PASSING_MODULES)


def pools(module: nn.Module) -> bool:
    """Return whether a module lets a scaling of whole channels pass."""
    return is_plain(module, _POOLING_MODULES)


@final
class ScaledCall:
    """A call of a torch function, seen as something that a scaling may pass."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        name = getattr(function, "__name__", type(function).__name__)
        self._is_attribute = name == "__get__"
        if self._is_attribute:
            name = getattr(function, "__self__").__name__  # noqa: B009
        self.name = name.split(".")[0].strip("_")  # mul.Scalar, relu_, __getitem__
        self.args = args
        self.kwargs = kwargs

    def scales(self, among: Callable[[Tensor], bool]) -> Tensor | None:
        """Return the one of these tensors whose scaling passes; None if it would not."""
        first = self.args[0] if self.args else self.kwargs.get("input")
        those = [x for x in self.tensors() if among(x)]
        if _PRODUCT.fullmatch(self.name):
            return those[0] if len(those) == 1 else None
        passing = (
            _PASSING_FUNCTION.fullmatch(self.name)
            or self.rearranges
            or (_QUOTIENT.fullmatch(self.name) and len(those) == 1)
            or (self.name == "pad" and not self._pad_value())
            or self.pools
        )
        return first if passing and any(first is x for x in those) else None

    @property
    def rearranges(self) -> bool:
        """Whether dimensions change their places."""
        return bool(_REARRANGING_FUNCTION.fullmatch(self.name))

    @property
    def pools(self) -> bool:
        """Whether only a scaling of whole channels passes."""
        return bool(_POOLING_FUNCTION.fullmatch(self.name))

    def asks(self, output: Any) -> bool:
        """Return whether it only asked for a property such as the shape."""
        if self._is_attribute:
            return not isinstance(output, Tensor)
        return bool(_QUESTION.fullmatch(self.name))

    def tensors(self) -> list[Tensor]:
        """Return all tensors among its arguments."""
        return [x for x in tree_leaves((self.args, self.kwargs)) if isinstance(x, Tensor)]

    def outputs(self, output: Any) -> list[Tensor]:
        """Return all tensors that it made or wrote to."""
        if self.name == "setitem":
            output = self.args[0]
        return [x for x in tree_leaves(output) if isinstance(x, Tensor)]

    def __str__(self) -> str:
        return next(
            (word for word, names in _WORDS.items() if names.fullmatch(self.name)), self.name
        )

    def _pad_value(self) -> float | None:
        return self.kwargs.get("value", self.args[3] if len(self.args) > 3 else None)
