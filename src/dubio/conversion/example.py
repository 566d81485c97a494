"""Which dropout feeds which weight layers, found by running the network once.

The network runs in eval mode under an interceptor that notes where the outputs of dropouts go.
"""

from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from torch.utils._python_dispatch import TorchDispatchMode

from dubio.conversion.feeds import Feeds
from dubio.conversion.flow import Flow
from dubio.noise import inputs
from dubio.noise.gates import Gates, find_gates
from dubio.noise.inputs import Inputs
from dubio.noise.interceptor import Args, Function, Kwargs
from dubio.noise.numbers import Numbers
from dubio.noise.run import Pass, run_pass
from dubio.noise.sites import Sites
from dubio.noise.stochastic import Stochastic


def by_example(
    model: nn.Module,
    example: Inputs,
    layers: Mapping[nn.Module, str],
    dropouts: Mapping[_DropoutNd, str],
) -> Feeds:
    """Return what dropouts feed in a run on an example; nothing in the network is changed."""
    try:
        inputs.check(model, example)
        rows = inputs.count_rows(example)
    except (TypeError, ValueError) as error:
        error.add_note("Here x is the example= to run the network on.")
        raise

    gates = find_gates(model, [model], example, whole=True)
    flow, sites = _run(model, example, layers, dropouts, gates)
    known = {
        part
        for module in model.modules()
        if isinstance(module, Stochastic | _DropoutNd) or module in layers
        for part in module.modules()
    }
    return Feeds(
        {dropout: flow.feed(dropout) for dropout in dropouts},
        tuple(s.name for s in sites if s.rate is not None and s.module not in known),
        frozenset(flow.packed),
        {layer: note for layer in layers if (note := flow.note(layer, rows))},
    )


def _run(
    model: nn.Module,
    example: Inputs,
    layers: Mapping[nn.Module, str],
    dropouts: Mapping[_DropoutNd, str],
    gates: Gates,
) -> tuple[Flow, Sites]:
    flow = Flow(model, layers, dropouts)
    numbers = Numbers(0, range(1), shared=False)
    running = Pass(numbers, roots=[model], executor=flow, evaluating=True)
    unhidden = _Unhidden()  # type: ignore[no-untyped-call]
    output = run_pass(
        lambda: inputs.call(model, example),
        running,
        gates=([model], gates.raised),
        around=[*gates.around(), unhidden],
    )
    flow.end(inputs.tensors(output))
    return flow, running.sites


class _Unhidden(TorchDispatchMode):
    """Calls what scripted functions do once more as Python would, so that interceptors see it."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or torch imports its compiler for every one of these

    def __torch_dispatch__(
        self, func: Function, types: Any, args: Args = (), kwargs: Kwargs | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))
