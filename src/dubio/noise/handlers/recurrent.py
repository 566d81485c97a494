"""Dropout between the layers of LSTM, GRU and RNN, which torch applies inside one function."""

from typing import Any

import torch
from torch import Tensor

from dubio.noise.interceptor import Args, Function, Kwargs, handles
from dubio.noise.perturbations import plain_dropout
from dubio.noise.run import Pass


@handles(torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
def _recurrent(running: Pass, function: Function, args: Args, kwargs: Kwargs) -> Any:
    """Run layer by layer with a site after every layer but the last."""
    packed = isinstance(args[1], Tensor) and isinstance(args[3], (list, tuple))
    if packed:
        x, batch_sizes, hidden, weights, biases, layers, rate, _, bidirectional = args
        batch_first = False
    else:
        x, hidden, weights, biases, layers, rate, _, bidirectional, batch_first = args
        batch_sizes = None
    if not rate or layers == 1:
        return running.call(function, args, kwargs)
    directions = 2 if bidirectional else 1
    states = hidden if isinstance(hidden, (list, tuple)) else (hidden,)
    per_layer = len(weights) // layers
    finals: list[list[Tensor]] = [[] for _ in states]
    for layer in range(layers):
        parts = [state[layer * directions : (layer + 1) * directions] for state in states]
        start = parts if len(parts) > 1 else parts[0]
        own = list(weights[layer * per_layer : (layer + 1) * per_layer])
        common = (start, own, biases, 1, 0.0, False, bidirectional)
        call = (x, batch_sizes, *common) if packed else (x, *common, batch_first)
        x, *ends = running.call(function, call, {})
        for collected, end in zip(finals, ends, strict=True):
            collected.append(end)
        if layer < layers - 1:
            x = _between_layers(running, function.__name__, x, rate)
    return (x, *(torch.cat(final) for final in finals))


def _between_layers(running: Pass, kind: str, x: Tensor, rate: float) -> Tensor:
    site = running.reach(kind, x, rate)
    if site is None:
        return x
    layout = running.layout(site, x.shape, x)
    return running.perturb(plain_dropout(site.index, rate, layout), x)
