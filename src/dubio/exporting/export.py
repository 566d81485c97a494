"""`export`: a network with its noise as a graph in a file, for servers without torch and dubio."""

from dataclasses import dataclass
from operator import index
from os import PathLike
from pathlib import Path
from typing import Any, Literal, SupportsIndex, final

import numpy
import torch
from torch import Tensor, nn

from dubio.draws.absence import no_sites
from dubio.draws.source import uncompiled
from dubio.exporting import files
from dubio.exporting.checking import Comparison
from dubio.exporting.errors import ExportError
from dubio.exporting.graph import trace
from dubio.exporting.hashed import hashed_noise
from dubio.exporting.noise_inputs import NoiseInput, ObservedNumbers, noise_inputs
from dubio.exporting.passes import ExportPasses
from dubio.noise.inputs import Inputs, Select
from dubio.noise.noise import Noise
from dubio.noise.sites import Site, Where, chooser


@final
@dataclass(frozen=True)
class Exported:
    """A network that was exported to a file, and the inputs of its graph.

    Attributes:
        file: The file.
        draws: Number of draws per run of the graph: the first axis of its outputs.
        inputs: Names of the network's own inputs.
        noises: The noise inputs, in order; or, if the graph makes the noise from an input ``seed``,
            the noises it makes.
        outputs: Names of the outputs.
        seeded: Whether the graph makes its noise from a seed.
    """

    file: Path
    draws: int
    inputs: tuple[str, ...]
    noises: tuple[NoiseInput, ...]
    outputs: tuple[str, ...]
    seeded: bool

    def noise(
        self, rows: int, seed: int = 0, *, draws: int | None = None
    ) -> dict[str, numpy.ndarray[Any, Any]]:  # each (S, …)
        """Return the noise of a batch, by the names of inputs, draws first.

        It is the noise of ``dubio.predict(net, x, generator=torch.Generator().manual_seed(seed))``.
        If the graph makes its noise itself, it is the noise that it makes from this seed.

        Args:
            rows: Number of rows of the batch.
            seed: The seed.
            draws: Number of draws; by default as many as one run takes.
        """
        draws = self.draws if draws is None else draws
        noise = Noise(draws, generator=torch.Generator().manual_seed(seed))
        word = torch.tensor(seed)
        made: dict[str, Tensor] = {
            each.name: hashed_noise(word, each, draws, rows)
            if self.seeded
            else each.drawn(noise.numbers, rows)
            for each in self.noises
        }
        return {name: numbers.numpy() for name, numbers in made.items()}


def export(
    model: nn.Module,
    x: Inputs,
    file: str | PathLike[str],
    *,
    noise: Literal["input", "seed"] = "input",
    draws: int = 1,
    where: Where[Site] = None,
    select: Select = None,
) -> Exported:
    """Export a network to a file as a graph that takes its noise as an input.

    The graph computes y = f(x; ε) for some draws of the noise ε, which is an input for each site or
    is made from a seed. It takes any number of rows. Before the file is written, the graph is
    compared with the network; noise that is missing from the graph is an error.

    Args:
        model: Any network, unmodified, on the CPU.
        x: A batch: a tensor, a tuple of arguments, or a dict of named arguments; rows come first.
            Values that are not tensors become constants.
        file: Where to write: ``….onnx``, or ``….pt2`` for `torch.export.load`.
        noise: Whether the noise comes from inputs, or is made in the graph from one input ``seed``.
        draws: Number of draws per run. The noisy part of the graph is repeated as often.
        where: Which sites are noisy, as for `dubio.predict`.
        select: Which part of the network's output to use; by default all of it.

    Returns:
        The file and the names of the graph's inputs and outputs.

    Raises:
        ExportError: If the network cannot be exported.
        NoSitesError: If no noise enters the output.
    """
    path = Path(file)
    if path.suffix not in (".onnx", ".pt2"):
        raise ValueError(
            f"file: expected a name that ends in .onnx or .pt2, got {path.name!r}; the ending "
            f"sets the format"
        )
    if noise not in ("input", "seed"):
        raise ValueError(f"noise: expected 'input' or 'seed', got {noise!r}")
    if isinstance(draws, bool) or not isinstance(draws, SupportsIndex) or index(draws) < 1:
        raise ValueError(f"draws: expected a positive int, got {draws!r}; try draws=20")
    network = uncompiled(model)
    if not isinstance(network, nn.Module):
        raise TypeError(
            f"model: expected an nn.Module, got {type(model).__name__}; make the function the "
            f"forward of a module"
        )
    if path.suffix == ".onnx":
        files.check_packages()
    draws, seeded = index(draws), noise == "seed"
    passes = ExportPasses(network, x, chooser(where), select)
    _check_types(network, passes.rows(2))
    noises = _observed(network, passes)
    program = trace(network, passes, noises, draws, seeded=seeded)
    names = [*passes.names, *(["seed"] if seeded else [each.name for each in noises])]
    outputs = passes.output_names
    card = _card(passes, noises, draws, seeded=seeded)
    if path.suffix == ".onnx":
        data = files.onnx_file(program, names, outputs, card)
        run = files.onnx_runner(data)
    else:
        data = files.pt2_file(program, card)
        run = files.pt2_runner(data)
    Comparison(passes, run, noises, draws, seeded=seeded).check()
    files.write(path, data)
    return Exported(path, draws, tuple(passes.names), tuple(noises), tuple(outputs), seeded)


def _observed(network: nn.Module, passes: ExportPasses) -> list[NoiseInput]:
    """Return the noises of a network, seen in passes over two rows and over three."""
    fewer, more = (ObservedNumbers(0, range(1), shared=False) for _ in range(2))
    _, sites = passes.run(passes.rows(2), fewer)
    passes.run(passes.rows(3), more)
    if not fewer.seen:
        raise no_sites([network], sites, passes.chosen)
    return noise_inputs(fewer.seen, more.seen, 2, sites)


def _card(
    passes: ExportPasses, noises: list[NoiseInput], draws: int, *, seeded: bool
) -> dict[str, Any]:
    """Return the graph's metadata."""
    of_inputs = [
        {
            "name": name,
            "shape": [-1 if rowwise else len(x), *x.shape[1:]] if x.dim() else [],
            "dtype": str(x.dtype).removeprefix("torch."),
        }
        for name, x, rowwise in zip(passes.names, passes.rows(2), passes.with_rows, strict=True)
    ]
    return {
        "inputs": of_inputs,
        "draws": draws,
        "noise_is": "made from the input seed" if seeded else "an input for each site",
        "noise": [each.card(draws) for each in noises],
        "outputs": passes.output_names,
    }


def _check_types(network: nn.Module, tensors: list[Tensor]) -> None:
    """Raise an error for tensors that servers do not support."""
    for tensor in (*tensors, *network.parameters(), *network.buffers()):
        if not tensor.is_cpu:
            raise ExportError(
                f"model: expected a network and a batch on the CPU, got a tensor on "
                f"{tensor.device}; move a copy there"
            )
        if tensor.dtype == torch.bfloat16:
            raise ExportError(
                "model: expected types that numpy has, got bfloat16; convert a copy of the network "
                "with .float() or .half()"
            )
