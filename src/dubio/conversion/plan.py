"""Plans: which layers are replaced, which dropouts removed, and what is left and why."""

import copy as copying
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, final

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from dubio.conversion.places import Place, Rule, containers
from dubio.noise.stochastic import check_apart
from dubio.report.tables import table


@final
@dataclass(frozen=True)
class Change:
    """The change at one weight layer.

    Attributes:
        place: The place, as the rule saw it.
        replacement: The module that replaces the layer; None if the layer stays.
        fed_by: Names of the dropouts that feed the layer and are removed with it.
        note: How the new mask differs from them.
    """

    place: Place
    replacement: nn.Module | None
    fed_by: tuple[str, ...] = ()
    note: str = ""


class Left(NamedTuple):
    """Noise that stays, or a layer that could not be replaced."""

    name: str
    reason: str


@final
@dataclass(frozen=True)
class Plan:
    """The changes that a conversion makes; prints as a table.

    Attributes:
        model: The network to convert.
        rule: The rule.
        changes: Every weight layer, in the order of the network, and its change.
        removed: Names of the dropouts to remove.
        left: Dropouts and layers that stay unexpectedly, and why.
    """

    model: nn.Module
    rule: Rule
    changes: tuple[Change, ...]
    removed: Mapping[str, nn.Module]
    left: tuple[Left, ...]

    def carry_out(self, *, copy: bool = True) -> nn.Module:
        """Convert the network and return the result.

        The weights do not change. Copying keeps modules, parameters and masks shared that were
        shared.

        Args:
            copy: Whether to convert a copy instead of the network itself. A network that is a
                single weight layer cannot be changed in place; its replacement is returned.

        Raises:
            ValueError: If no layer is to be replaced, or if two layers that share weights would not
                share their replacement.
        """
        replacements: dict[nn.Module, nn.Module] = {
            change.place.layer: change.replacement
            for change in self.changes
            if change.replacement is not None
        }
        if not replacements:
            raise ValueError(self._nothing_to_do())
        check_apart(nn.ModuleList(replacements.values()).modules())
        replacements |= {dropout: nn.Identity() for dropout in self.removed.values()}
        model = self.model
        if copy:
            try:
                model, replacements = copying.deepcopy((model, replacements))
            except Exception as error:
                error.add_note("The network cannot be copied; copy=False converts it in place.")
                raise
        return _replace(model, replacements)

    def _nothing_to_do(self) -> str:
        rule = getattr(self.rule, "__qualname__", None) or repr(self.rule)
        if not self.changes:
            return (
                f"model: expected a network with weight layers, got {type(self.model).__name__} "
                f"without any that is not stochastic already"
            )
        advice = getattr(self.rule, "advice", "")
        return (
            f"rule: expected one that fits a weight layer of the network, but {rule} replaces none "
            f"of these:\n{self}{advice and chr(10)}{advice}"
        )

    def __str__(self) -> str:
        rows = [
            (
                _title(change.place),
                _describe(change.place.layer),
                ", ".join(change.fed_by) or "-",
                _describe_new(change.replacement, change.place.layer),
            )
            for change in self.changes
        ]
        notes = [f"{_title(change.place)}: {change.note}" for change in self.changes if change.note]
        left = [f"{left.name}: {left.reason}" for left in self.left]
        parts = [table(("layer", "before", "fed by", "after"), rows)]
        parts += ["\n".join(["note", *notes])] if notes else []
        parts += ["\n".join(["left", *left])] if left else []
        return "\n\n".join(parts)

    __repr__ = __str__


def _replace(model: nn.Module, replacements: Mapping[nn.Module, nn.Module]) -> nn.Module:
    """Replace modules under all of their names."""
    uses = [
        (parent, name, child)
        for parent in containers(model)
        for name, child in parent._modules.items()
        if child is not None and child in replacements
    ]
    if set(replacements) - {child for _, _, child in uses} - {model}:
        raise RuntimeError("the network has changed since the plan was made; make another plan")
    for old, new in replacements.items():
        for module in set(new.modules()) - set(old.modules()):
            module.training = old.training
        if isinstance(old, _DropoutNd):
            vars(new).update((name, value) for name, value in vars(old).items() if "hook" in name)
    for parent, name, child in uses:
        parent.register_module(name, replacements[child])
    return replacements.get(model, model)


def _title(place: Place) -> str:
    return place.name or "(network)"


def _describe(module: nn.Module) -> str:
    details = module.extra_repr().replace("in_features=", "").replace("out_features=", "")
    return f"{type(module).__name__}({details.removesuffix(', bias=True')})"


def _describe_new(module: nn.Module | None, layer: nn.Module) -> str:
    if module is None:
        return "-"
    parts = [_describe(child) for child in module.children() if child is not layer]
    return f"{type(module).__name__}({', '.join(parts)})"
