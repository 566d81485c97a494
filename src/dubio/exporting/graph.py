"""A network under given noise as a graph of torch."""

import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.fx import GraphModule

from dubio.draws.given import GivenNumbers
from dubio.exporting.errors import ExportError
from dubio.exporting.hashed import hashed_noise
from dubio.exporting.noise_inputs import NoiseInput
from dubio.exporting.passes import ExportPasses
from dubio.noise.sites import Site


@final
class Graph(nn.Module):
    """Some draws of a network, as a function of its inputs and of noise, or of a seed.

    Called with the tensors of the network, then with each noise, draws first, or with the seed. It
    returns each tensor of the output with draws first.

    Args:
        model: The network, whose parameters the graph will have.
        passes: The passes of it.
        noises: Its noises.
        draws: How many draws.
        seeded: Whether noise is made from a seed in the graph.
    """

    def __init__(
        self,
        model: nn.Module,
        passes: ExportPasses,
        noises: Sequence[NoiseInput],
        draws: int,
        *,
        seeded: bool,
    ) -> None:
        super().__init__()
        self.network = model
        self._passes = passes
        self._noises = noises
        self._draws = draws
        self._seeded = seeded
        self._sites = frozenset(noise.place[0] for noise in noises)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return all draws."""
        count = len(self._passes.names)
        given, noises = tensors[:count], list(tensors[count:])
        if self._seeded:
            rows = given[self._passes.with_rows.index(True)].shape[0]
            seed = noises[0]
            noises = [hashed_noise(seed, noise, self._draws, rows) for noise in self._noises]
        by_place = {
            noise.place: numbers for noise, numbers in zip(self._noises, noises, strict=True)
        }
        draws = [
            self._passes.inside(
                given, GivenNumbers(0, range(draw, draw + 1), False, by_place), self._chosen
            )
            for draw in range(self._draws)
        ]
        return tuple(torch.stack(parts) for parts in zip(*draws, strict=True))

    def _chosen(self, site: Site) -> bool:
        return site.index in self._sites


def trace(
    model: nn.Module,
    passes: ExportPasses,
    noises: Sequence[NoiseInput],
    draws: int,
    *,
    seeded: bool,
) -> ExportedProgram:
    """Return the graph of a network, for any number of rows."""
    graph = Graph(model, passes, noises, draws, seeded=seeded)
    rows = Dim("rows")
    example = passes.rows(_ROWS)
    dims: list[Any] = [{0: rows} if rowwise else None for rowwise in passes.with_rows]
    if seeded:
        example.append(torch.tensor(0))
        dims.append(None)
    else:
        for noise in noises:
            example.append(torch.zeros((draws, *noise.shape_for(_ROWS)), dtype=noise.dtype))
            dims.append(
                {a + 1: rows if n == -1 else -n * rows for a, n in enumerate(noise.shape) if n < 0}
            )
    try:
        with passes.evaluating(), quietly():
            program = torch.export.export(
                graph, tuple(example), dynamic_shapes=(tuple(dims),), strict=False
            )
            return _without_traces(program)
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(_explained(error)) from error


def _without_traces(program: ExportedProgram) -> ExportedProgram:
    """Forget the lines of code that made the nodes, which name folders of this machine."""
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            for node in module.graph.nodes:
                node.meta.pop("stack_trace", None)
    return program


_ROWS = 2  # of the example; torch takes a single row for a constant


def _explained(error: Exception) -> str:
    """Return why a network has no graph, and what to do."""
    text = str(error)
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    if "data-dependent" in text or "DataDependent" in type(error).__name__:
        why = (
            "what it does depends on values of tensors (if, while, .item(), a mask as an index), "
            "and a graph has one course; use torch.where, or multiply by a mask"
        )
    elif "specialized it to be a constant" in text or "Constraints violated" in text:
        why = (
            "it works for one number of rows only; write x.shape[0] in place of len(x), -1 in view "
            "and reshape, and take all rows at once instead of in a loop"
        )
    else:
        why = "torch.export does not know how; a simpler forward may help"
    return f"model: expected a network that torch.export can follow, but {why}; torch says: {first}"


@contextmanager
def quietly() -> Iterator[None]:
    """Without what torch and its exporters log and print; errors say what is to be said."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


_TALKATIVE = (
    "onnx_ir",
    "onnxscript",
    "torch.fx.experimental.symbolic_shapes",
    "torch.onnx",
    "torch.onnx._internal.exporter._registration",
)
