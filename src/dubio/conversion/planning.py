"""Make a plan: apply a rule to the places of a network."""

import sys
from collections.abc import Iterator, Mapping

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from dubio.conversion.example import by_example
from dubio.conversion.feeds import Feeds
from dubio.conversion.order import by_order
from dubio.conversion.places import (
    Place,
    Rule,
    dropout_modules,
    input_units,
    is_known,
    obstacle,
    weight_layers,
)
from dubio.conversion.plan import Change, Left, Plan
from dubio.noise.inputs import Inputs


def plan(model: nn.Module, rule: Rule, *, example: Inputs | None = None) -> Plan:
    """Plan what `convert` would do, without doing it.

    Args:
        model: The network.
        rule: What replaces which layer: one of `dubio.rules`, or any function of a `Place` that
            returns a module, or None to leave the layer alone.
        example: A batch to run the network on once, to see which dropout feeds which layer: a
            tensor, a tuple of arguments or a dict of named arguments. Not needed if the network is
            an `nn.Sequential`, possibly nested. The network is not changed.

    Returns:
        The plan, which prints as a table and can be carried out.

    Raises:
        ValueError: If the network has dropouts whose layers can only be found with an example.
    """
    _check(model, rule)
    layers = weight_layers(model)
    dropouts = dropout_modules(model)
    known = {layer: name for layer, name in layers.items() if is_known(layer)}
    if example is None:
        feeds = by_order(model, known, dropouts)
    else:
        feeds = by_example(model, example, known, dropouts)
    agreement = _Agreement(rule, layers, dropouts, feeds)
    return Plan(
        model,
        rule,
        tuple(agreement.change(layer) for layer in layers),
        {name: d for d, name in dropouts.items() if d not in agreement.stays},
        (
            *(Left(name, agreement.why(d)) for d, name in dropouts.items() if d in agreement.stays),
            *(Left(name, "it is called in forward and is no module") for name in feeds.functions),
            *_inside_layers(layers, feeds),
        ),
    )


class _Agreement:
    """What a rule makes of every layer, and which dropouts can therefore go.

    A dropout goes if all layers that it feeds are replaced, and if no dropout stays that feeds one
    of them as well. If the rule takes only some of them, the dropout stays, and the rule is asked
    again about these, with no dropout to take over.

    Attributes:
        stays: The dropouts that stay, with the reason.
    """

    def __init__(
        self,
        rule: Rule,
        layers: Mapping[nn.Module, str],
        dropouts: Mapping[_DropoutNd, str],
        feeds: Feeds,
    ) -> None:
        self.stays = {
            d: feed.obstacle for d, feed in feeds.by_dropout.items() if feed.obstacle is not None
        }
        self._layers = layers
        self._dropouts = dropouts
        self._feeds = feeds
        self._answers: dict[nn.Module, tuple[Place, nn.Module | None]] = {}
        self._ask(rule)
        while newly := self._newly_staying():
            self.stays |= newly
            self._ask(rule)

    def change(self, layer: nn.Module) -> Change:
        """Return the change of a layer."""
        place, replacement = self._answers[layer]
        if replacement is None:
            return Change(place, None)
        feeding = [d for d in self._feeding(layer) if d not in self.stays]
        notes = [self._feeds.by_dropout[d].layers[layer] for d in feeding]
        notes.append(self._feeds.notes.get(layer, ""))
        return Change(
            place,
            replacement,
            tuple(self._dropouts[d] for d in feeding),
            "; ".join(dict.fromkeys(filter(None, notes))),
        )

    def why(self, dropout: _DropoutNd) -> str:
        """Return why a dropout stays, and which layers now have noise of two kinds."""
        twice = [
            self._layers[layer]
            for layer in self._feeds.by_dropout[dropout].layers
            if self._answers[layer][1] is not None
        ]
        both = f"; noise acts twice on {', '.join(twice)}" if twice else ""
        return self.stays[dropout] + both

    def _feeding(self, layer: nn.Module) -> list[_DropoutNd]:
        return [d for d, feed in self._feeds.by_dropout.items() if layer in feed.layers]

    def _ask(self, rule: Rule) -> None:
        for layer, name in self._layers.items():
            rates = [float(d.p) for d in self._feeding(layer) if d not in self.stays]
            features = None if layer in self._feeds.packed else input_units(layer)
            place = Place(name, layer, rates[0] if rates else None, features)
            if layer not in self._answers or self._answers[layer][0] != place:
                self._answers[layer] = (place, _answer(rule, place))

    def _newly_staying(self) -> dict[_DropoutNd, str]:
        """Dropouts that were to go and cannot."""
        newly: dict[_DropoutNd, str] = {}
        for dropout, feed in self._feeds.by_dropout.items():
            for layer in () if dropout in self.stays else feed.layers:
                other = next((d for d in self._feeding(layer) if d in self.stays), None)
                if other is not None:
                    also = self._dropouts[other]
                    newly[dropout] = f"it feeds {self._layers[layer]}, as does {also}, which stays"
                elif self._answers[layer][1] is None:
                    newly[dropout] = f"it feeds {self._layers[layer]}, which the rule leaves alone"
        return newly


def _answer(rule: Rule, place: Place) -> nn.Module | None:
    """Return the rule's replacement for a place; None to leave the layer alone."""
    if obstacle(place.layer) is not None:
        return None
    try:
        replacement = rule(place)
    except Exception as error:
        error.add_note(f"The rule was asked about {place.name or 'the network'!r}.")
        raise
    if replacement is not None and not isinstance(replacement, nn.Module):
        raise TypeError(
            f"rule: expected a function that returns a module or None, got "
            f"{type(replacement).__name__} for {place.name!r}"
        )
    return None if replacement is place.layer else replacement


def _inside_layers(layers: Mapping[nn.Module, str], feeds: Feeds) -> Iterator[Left]:
    """Yield what the layers themselves keep from being done."""
    for layer, name in layers.items():
        if isinstance(layer, nn.RNNBase) and layer.dropout > 0 and layer.num_layers > 1:
            yield Left(name, f"its dropout={layer.dropout:g} acts inside, between its layers")
        if isinstance(layer, nn.MultiheadAttention) and layer.dropout > 0:
            yield Left(name, f"its dropout={layer.dropout:g} acts inside, on attention weights")
        if layer in feeds.packed:
            yield Left(name, "packed sequences cannot be masked; pad them instead")
        reason = obstacle(layer)
        if reason is not None:
            yield Left(name, reason)
        elif not is_known(layer):
            yield Left(name, f"{type(layer).__name__} has a forward of its own: no mask of inputs")


def _check(model: nn.Module, rule: Rule) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected an nn.Module, got {type(model).__name__}")
    if not callable(rule) or isinstance(rule, type | nn.Module):
        raise TypeError(
            f"rule: expected a function of a place, such as dubio.rules.mask_inputs(mask), got "
            f"{rule!r}"
        )
    compiler = sys.modules.get("torch._dynamo")  # not imported: nothing is compiled
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise TypeError(
                f"model: expected a network of Python modules, but {name or 'the network'} is "
                f"compiled by TorchScript; convert the module it was scripted from"
            )
        if compiler is not None and isinstance(module, compiler.OptimizedModule):
            raise TypeError(
                f"model: expected a network that is not compiled yet, but {name or 'the network'} "
                f"comes from torch.compile; convert the original network, then compile the result"
            )
