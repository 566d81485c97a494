"""Compare a graph with its network before it is written: no noise may be lost."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from dubio.draws.given import GivenNumbers
from dubio.exporting.errors import ExportError
from dubio.exporting.files import Runner
from dubio.exporting.hashed import hashed_noise
from dubio.exporting.noise_inputs import NoiseInput
from dubio.exporting.passes import ExportPasses
from dubio.noise.equality import equal_up_to
from dubio.noise.numbers import Numbers

_LOOSE = {torch.float64: 1e-6, torch.float32: 1e-4}  # else half precision


@final
class Comparison:
    """A network and its graph, side by side.

    Args:
        passes: The passes of the network.
        run: Runs the graph.
        noises: Its noises.
        draws: How many draws the graph has.
        seeded: Whether the graph makes its noise from a seed.
    """

    def __init__(
        self,
        passes: ExportPasses,
        run: Runner,
        noises: Sequence[NoiseInput],
        draws: int,
        *,
        seeded: bool,
    ) -> None:
        self._passes = passes
        self._run = run
        self._noises = noises
        self._draws = draws
        self._seeded = seeded

    def check(self) -> None:
        """Raise an error unless the graph computes what the network does, under any noise.

        The noise of one site after the other is changed, and where the graph does not notice, the
        network must not either. Then both run under other noises, over two rows and over three.
        """
        if not self._seeded:
            self._check_each_site()
        first, second = (self._compare(rows, seed) for rows, seed in ((2, 1), (2, 2)))
        self._compare(3, 3)
        if all(map(torch.equal, first, second)):
            raise ExportError(
                "model: expected outputs that differ from draw to draw, got the same under two "
                "noises; pass select= for an output behind a site, or a batch on which it differs"
            )

    def _compare(self, rows: int, seed: int) -> list[Tensor]:
        tensors, noise = self._passes.rows(rows), self._noise(rows, seed)
        expected = self._network(tensors, noise)
        given = [torch.tensor(seed)] if self._seeded else noise
        for name, a, b in zip(
            self._passes.output_names, self._run([*tensors, *given]), expected, strict=True
        ):
            if not equal_up_to(_LOOSE.get(b.dtype, 5e-2), a, b):
                far = f"{(a - b).abs().max():.3g}" if a.shape == b.shape else f"{a.shape}"
                raise ExportError(
                    f"model: expected a graph that gives what the network gives, got {name} with a "
                    f"difference of {far} over {rows} rows; a network must not keep anything "
                    f"from call to call, nor read what a graph does not have (files, clocks, "
                    f"random numbers of numpy)"
                )
        return expected

    def _check_each_site(self) -> None:
        tensors, noise = self._passes.rows(2), self._noise(2, 1)
        before, expected = self._run([*tensors, *noise]), self._network(tensors, noise)
        for i, each in enumerate(self._noises):
            other = [*noise[:i], changed(each, noise[i]), *noise[i + 1 :]]
            notices = not all(map(torch.equal, before, self._run([*tensors, *other])))
            if not notices and not all(map(torch.equal, expected, self._network(tensors, other))):
                raise ExportError(
                    f"model: expected a graph in which the noise of site "
                    f"{each.name.removeprefix('noise.')!r} ({each.kind}) enters, got one without "
                    f"it; please report this network"
                )

    def _noise(self, rows: int, seed: int) -> list[Tensor]:
        if self._seeded:
            word = torch.tensor(seed)
            return [hashed_noise(word, noise, self._draws, rows) for noise in self._noises]
        numbers = Numbers(seed, range(self._draws), shared=False)
        return [noise.drawn(numbers, rows) for noise in self._noises]

    def _network(self, tensors: Sequence[Tensor], noise: Sequence[Tensor]) -> list[Tensor]:
        by_place = {each.place: x for each, x in zip(self._noises, noise, strict=True)}
        draws = [
            self._passes.run(tensors, GivenNumbers(0, range(k, k + 1), False, by_place))[0]
            for k in range(self._draws)
        ]
        return [torch.stack(parts) for parts in zip(*draws, strict=True)]


def changed(noise: NoiseInput, numbers: Tensor) -> Tensor:
    """Other numbers everywhere."""
    match noise.distribution:
        case "bernoulli":
            return 1 - numbers
        case "uniform":
            return (numbers + 0.5) % 1
        case "normal":
            return -numbers
