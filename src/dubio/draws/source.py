"""Draws from a network over a batch or a stream of batches, computed when they are asked for."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import torch
from torch import Tensor

from dubio.draws.broken import Broken
from dubio.draws.engine import Engine
from dubio.draws.starting import engine_for
from dubio.noise import inputs
from dubio.noise.autocast import Autocast
from dubio.noise.inputs import Inputs, Network, Select
from dubio.noise.protocols import RandomNumbers
from dubio.noise.run import BatchAxes
from dubio.noise.sites import Site, Where, chooser
from dubio.report.progress import Progress


class NetworkDraws:
    """The draws of a network on its inputs. Asked again, it computes the same draws again."""

    def __init__(
        self,
        model: Network,
        x: Inputs | Iterable[Any],
        numbers: RandomNumbers,
        check: Callable[[Tensor], None],
        chunk: int | None,
        where: Where[Site],
        select: Select,
        batch_axis: BatchAxes,
        broken: Broken | None = None,
    ) -> None:
        self._model = uncompiled(model)
        self._x = x
        self._numbers = numbers
        self._check = check
        self._chunk = chunk
        self._chosen = chooser(where)
        self._select = select
        self._broken = broken
        self._batch_axis = batch_axis
        self._state: list[tuple[int, torch.dtype, int]] = []  # of the network, at the first time
        self._casts = Autocast.now()  # at the time of the call
        self._first: list[Tensor] | None = None  # the first draw of every batch, once known

    @property
    def num_draws(self) -> int:
        """S, the number of draws of every row."""
        return len(self._numbers.indices)

    @property
    def num_rows(self) -> int:
        """B, the number of rows."""
        if self._first is None:
            raise RuntimeError("the number of rows is known after all chunks have been computed")
        return sum(map(len, self._first))

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield some draws (s, b, …) of some rows: all draws of a batch, then those of the next."""
        state = _state(self._model)
        if self._first is not None and state != self._state:
            raise RuntimeError(_CHANGED)
        self._state = state
        yield from self._chunks()

    def _chunks(self) -> Iterator[tuple[slice, Tensor]]:
        first: list[Tensor] = []
        start = 0
        with Progress("predict", self._total()) as progress, self._casts.again():
            for index, batch in enumerate(self._batches()):
                for outputs in self._engine(batch, index).chunks(self._chunk):
                    if len(first) == index:
                        self._check(outputs)
                        _check_same_shape(first, outputs[0])
                        self._compare_with_last_time(index, outputs[0])
                        first.append(outputs[0])
                    if self._broken is not None:
                        self._broken.see(outputs, start)
                    yield slice(start, start + outputs.shape[1]), outputs
                    progress.advance(len(outputs))
                start += len(first[-1])
        if start == 0 and self._first is None:
            raise ValueError("x: expected at least one batch, got an empty iterable")
        self._compare_with_last_time(len(first), None)
        self._first = first

    def _compare_with_last_time(self, index: int, output: Tensor | None) -> None:
        """Make sure that the draws that are computed again are the same draws."""
        if self._first is None:
            return
        before = self._first[index] if index < len(self._first) else None
        if before is None or output is None:
            same = before is output
        else:
            same = before.shape == output.shape and torch.allclose(before, output, 1e-5, 1e-6)
        if not same:
            raise RuntimeError(_UNREPEATABLE if inputs.is_loader(self._x) else _CHANGED)

    def collect(self) -> Tensor:  # (S, B, …)
        """Return all draws of all rows in one tensor."""
        blocks: list[Tensor] = []
        draws, filled = self.num_draws, 0
        for _, outputs in self._chunks():
            if len(outputs) == draws:
                blocks.append(outputs)
                continue
            if filled == 0:
                blocks.append(outputs.new_empty((draws, *outputs.shape[1:])))
            blocks[-1][filled : filled + len(outputs)] = outputs
            filled = (filled + len(outputs)) % draws
        return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=1)

    def differentiable(self) -> Tensor:  # (S, B, …)
        """Return all draws of all rows, with the graph of the passes that they come from."""
        blocks: list[Tensor] = []
        with Progress("predict", self._total()) as progress, self._casts.again():
            for index, batch in enumerate(self._batches()):
                outputs: list[Tensor] = []
                for output in self._engine(batch, index).differentiable():
                    outputs.append(output)
                    progress.advance()
                with torch.enable_grad():
                    blocks.append(torch.stack(outputs))
                self._check(blocks[-1])
                _check_same_shape([block[0] for block in blocks[:1]], blocks[-1][0])
                if self._broken is not None:
                    self._broken.see(blocks[-1], sum(block.shape[1] for block in blocks[:-1]))
        if not blocks:
            raise ValueError("x: expected at least one batch, got an empty iterable")
        with torch.enable_grad():
            return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=1)

    def _batches(self) -> Iterator[Inputs]:
        home = inputs.home_of(self._model) if inputs.is_loader(self._x) else None
        return inputs.batches(self._x, home)

    def _engine(self, batch: Inputs, index: int) -> Engine:
        numbers = self._numbers.for_batch(index)
        return engine_for(self._model, batch, self._select, numbers, self._chosen, self._batch_axis)

    def _total(self) -> int | None:
        """Draw over all batches, for the progress bar."""
        if not inputs.is_loader(self._x):
            return self.num_draws
        try:
            return self.num_draws * len(self._x)  # type: ignore[arg-type]
        except TypeError:
            return None


_CHANGED = (
    "the network or its inputs have changed since predict, and with keep_draws=False the draws are "
    "computed anew; call predict again, or with keep_draws=True."
)
_UNREPEATABLE = (
    "with keep_draws=False the draws are computed anew, and these batches are not the same again; "
    "pass a DataLoader with shuffle=False, or call predict with keep_draws=True."
)


def _check_same_shape(first: list[Tensor], output: Tensor) -> None:
    """Raise an error for a batch whose rows have another shape than those before."""
    if first and first[0].shape[1:] != output.shape[1:]:
        raise ValueError(
            f"x: expected batches whose outputs have rows of one shape, got "
            f"{tuple(first[0].shape[1:])} and {tuple(output.shape[1:])}; pad all batches to the "
            f"same length, or call predict for each batch by itself"
        )


def uncompiled(model: Network) -> Network:
    """Return the network behind ``torch.compile``, whose Python code can be followed."""
    compiler = sys.modules.get("torch._dynamo")  # not imported: nothing is compiled
    if compiler is not None and isinstance(model, compiler.OptimizedModule):
        return cast(Network, model._orig_mod)
    return model


def _state(model: Network) -> list[tuple[int, torch.dtype, int]]:
    """Identity, type and version of every tensor of the network."""
    return [
        (id(tensor), tensor.dtype, 0 if tensor.is_inference() else tensor._version)
        for network in inputs.networks(model)
        for tensor in (*network.parameters(), *network.buffers())
    ]
