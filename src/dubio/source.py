"""Draws from a network over a batch or a stream of batches, computed when they are asked for."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, SequentialSampler

from dubio import inputs
from dubio.inputs import Inputs, Network, Select
from dubio.interception.numbers import Numbers
from dubio.interception.sites import Where, chooser
from dubio.progress import Progress
from dubio.sampling.engine import Engine


class NetworkDraws:
    """The draws of a network on its inputs. Asked again, it computes the same draws again."""

    def __init__(
        self,
        model: Network,
        x: Inputs | Iterable[Any],
        numbers: Numbers,
        check: Callable[[Tensor], None],
        chunk: int | None,
        where: Where,
        select: Select,
    ) -> None:
        self._model = uncompiled(model)
        self._x = x
        self._numbers = numbers
        self._check = check
        self._chunk = chunk
        self._chosen = chooser(where)
        self._select = select
        self._versions = _versions(self._model)
        self._rows: int | None = None  # known after the first pass

    @property
    def num_draws(self) -> int:
        """S, the number of draws of every row."""
        return len(self._numbers.indices)

    @property
    def num_rows(self) -> int:
        """B, the number of rows."""
        if self._rows is None:
            raise RuntimeError("the number of rows is known after all chunks have been computed.")
        return self._rows

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Some draws (s, b, …) of some rows: all draws of a batch, then those of the next."""
        if self._rows is not None:
            self._check_repeatable()
        start = 0
        with Progress("predict", self._total()) as progress:
            for index, batch in enumerate(self._batches()):
                stop = start
                for outputs in self._engine(batch, index).chunks(self._chunk):
                    if stop == start:  # the first draw of a batch: complain now or never
                        self._check(outputs)
                    stop = start + outputs.shape[1]
                    yield slice(start, stop), outputs
                    progress.advance(len(outputs))
                start = stop
        if start == 0:
            raise ValueError("x: expected at least one batch, got an empty iterable.")
        self._rows = start

    def collect(self) -> Tensor:  # (S, B, …)
        """All draws of all rows in one tensor."""
        blocks: list[Tensor] = []
        filled = 0
        for _, outputs in self.chunks():
            if len(outputs) == self.num_draws:
                blocks.append(outputs)
                continue
            if filled == 0:
                blocks.append(outputs.new_empty((self.num_draws, *outputs.shape[1:])))
            blocks[-1][filled : filled + len(outputs)] = outputs
            filled = (filled + len(outputs)) % self.num_draws
        return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=1)

    def _batches(self) -> Iterator[Inputs]:
        return inputs.batches(self._x)

    def _engine(self, batch: Inputs, index: int) -> Engine:
        inputs.check(self._model, batch)
        return Engine(
            lambda rows: inputs.choose(inputs.call(self._model, batch, rows), self._select),
            self._model if isinstance(self._model, nn.Module) else None,
            inputs.count_rows(batch),
            self._numbers.for_batch(index),
            self._chosen,
        )

    def _total(self) -> int | None:
        """Draws over all batches, for the progress bar."""
        if not inputs.is_loader(self._x):
            return self.num_draws
        try:
            return self.num_draws * len(self._x)  # type: ignore[arg-type]
        except TypeError:
            return None

    def _check_repeatable(self) -> None:
        if _versions(self._model) != self._versions:
            raise RuntimeError(
                "the network has changed since predict, and with keep_draws=False its draws are "
                "computed anew; call predict again, or with keep_draws=True."
            )
        loader = self._x
        repeatable = not inputs.is_loader(loader) or (
            isinstance(loader, DataLoader) and isinstance(loader.sampler, SequentialSampler)
        )
        if not repeatable:
            raise RuntimeError(
                "with keep_draws=False the draws are computed anew, which takes a DataLoader with "
                "shuffle=False; pass one, or call predict with keep_draws=True."
            )


def uncompiled(model: Network) -> Network:
    """The network behind ``torch.compile``, whose Python code can be followed."""
    compiler = sys.modules.get("torch._dynamo")  # not imported: nothing is compiled
    if compiler is not None and isinstance(model, compiler.OptimizedModule):
        return cast(Network, model._orig_mod)
    return model


def _versions(model: Network) -> list[tuple[int, int]]:
    """Identity and version of every tensor of the network."""
    if not isinstance(model, nn.Module):
        return []
    return [(id(tensor), tensor._version) for tensor in (*model.parameters(), *model.buffers())]
