"""An engine for a network and a batch."""

from collections.abc import Callable, Sequence

from torch import Tensor

from dubio.draws.engine import Engine
from dubio.draws.trust import trusted
from dubio.noise import inputs
from dubio.noise.gates import find_gates
from dubio.noise.inputs import Inputs, Network, Select
from dubio.noise.protocols import RandomNumbers
from dubio.noise.run import BatchAxes
from dubio.noise.sites import Site


def engine_for(
    model: Network,
    batch: Inputs,
    select: Select,
    numbers: RandomNumbers,
    chosen: Callable[[Site], bool],
    batch_axis: BatchAxes,
    tensors: Sequence[Tensor] | None = None,
    owned: Sequence[Tensor] = (),
) -> Engine:
    """Check the inputs, run the network once, and return what computes its draws.

    Args:
        model: The network.
        batch: Its inputs.
        select: Which part of its output counts.
        numbers: The random numbers of all draws.
        chosen: Which sites are sampled.
        batch_axis: Where rows are, by site.
        tensors: The tensors among the inputs, if the recording is to serve for others.
        owned: The tensors of the network, then.
    """
    inputs.check(model, batch)
    roots = inputs.networks(model)
    return Engine(
        lambda order: inputs.choose(inputs.call(model, batch, order), select),
        roots,
        batch,
        numbers,
        chosen,
        batch_axis,
        find_gates(model, roots, batch, select),
        tensors,
        owned,
        trusted(model, select),
    )
