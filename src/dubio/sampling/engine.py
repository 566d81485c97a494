"""The engine: a stream of draws from any network, in chunks.

The network runs once per batch, with the noise of one draw, and is recorded; all draws then come
from playing the tape. Where a network cannot be taped (its branches depend on sampled values, it
draws random numbers itself, …) it runs once per draw instead, with the same noise.
"""

import logging
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from dubio.interception.interceptor import BatchSize, Interceptor
from dubio.interception.layout import AmbiguousBatchError
from dubio.interception.numbers import Numbers
from dubio.interception.sites import Site, Sites
from dubio.sampling.absence import no_sites
from dubio.sampling.modes import sampling_mode
from dubio.sampling.tape import Tape
from dubio.sampling.traced import Recorder, Traced

logger = logging.getLogger("dubio")

# Values of one chunk, all layers together: within a core's share of the cache hierarchy and small
# enough that freed blocks are reused instead of being given back to the system page by page.
CHUNK_BYTES = 24 * 2**20

_verified: set[int] = set()  # signatures of tapes that gave what their network gave

Run = Callable[[int | None], Tensor]  # rows (None: all of them) -> the selected output


class Engine:
    """Draws from one network on one batch.

    Args:
        run: Runs the network on the first rows of the batch, or on all, and selects the output.
        root: The network, for the names of sites.
        rows: Number of rows of the batch.
        numbers: The noise of all draws.
        chosen: Which sites are noisy.
    """

    def __init__(
        self,
        run: Run,
        root: nn.Module | None,
        rows: int,
        numbers: Numbers,
        chosen: Callable[[Site], bool],
    ) -> None:
        self._run = run
        self._root = root
        self._numbers = numbers
        self._chosen = chosen
        self._batch = BatchSize(rows)
        with sampling_mode(root), torch.no_grad():
            self._tape, self._first, self.sites = self._record()

    def chunks(self, chunk: int | None = None) -> Iterator[Tensor]:
        """All draws in order, ``chunk`` (or as many as fit the budget) at a time: (s, B, …)."""
        yield self._first[None]
        draws = len(self._numbers.indices)
        if self._tape is None or not self._repeats(self._tape):
            for index in range(1, draws):
                yield self._pass(self._numbers.part(index, index + 1))[None]
            return
        size = chunk or max(1, CHUNK_BYTES // max(1, self._tape.bytes_per_draw))
        for start in range(1, draws, size):
            yield self._play(self._tape, start, start + size)

    def _play(self, tape: Tape, start: int, stop: int) -> Tensor:
        with torch.no_grad(), torch.autocast(self._first.device.type, enabled=False):
            return tape.play(self._numbers.part(start, stop))

    def _repeats(self, tape: Tape) -> bool:
        """Whether playing the tape gives what the network gave, asked once for every structure."""
        if len(self._numbers.indices) == 1 or tape.signature in _verified:
            return True
        if not _agree(self._play(tape, 0, 2)[0], self._first):
            logger.warning(
                "a recorded pass did not repeat; the network runs once per draw instead, with the "
                "same results. Please report this network."
            )
            return False
        _verified.add(tape.signature)
        return True

    def _pass(self, numbers: Numbers) -> Tensor:
        """The output under the noise of one draw."""
        interceptor = self._interceptor(numbers, None)
        with sampling_mode(self._root), torch.no_grad(), interceptor:
            return self._run(None)

    def _record(self) -> tuple[Tape | None, Tensor, Sites]:
        """Run the network once: the tape if it can be played, the first draw, and the sites."""
        recorder = Recorder()
        numbers = self._numbers.part(0, 1)
        interceptor = self._interceptor(numbers, recorder)
        try:
            with interceptor:
                output = self._run(None)
        except AmbiguousBatchError:
            self._batch = self._probe()
            return self._record()
        except Exception as error:  # whatever it is, a pass without recording tells better
            return self._give_up(numbers, recorder.tape.obstacle or repr(error))
        finally:
            recorder.close()
        if not isinstance(output, Traced):
            if recorder.tape.obstacle is not None:
                return self._give_up(numbers, recorder.tape.obstacle)
            raise no_sites(self._root, interceptor.sites, self._chosen)
        recorder.tape.finish(output.slot, shared=self._numbers.shared)
        if recorder.tape.obstacle is not None:
            logger.info("one pass per draw, since %s", recorder.tape.obstacle)
            return None, output.value, interceptor.sites
        return recorder.tape, output.value, interceptor.sites

    def _give_up(self, numbers: Numbers, obstacle: str) -> tuple[None, Tensor, Sites]:
        logger.info("one pass per draw, since %s", obstacle)
        interceptor = self._interceptor(numbers, None)
        with interceptor:
            output = self._run(None)
        if not any(map(self._chosen, interceptor.sites)):
            raise no_sites(self._root, interceptor.sites, self._chosen)
        return None, output, interceptor.sites

    def _probe(self) -> BatchSize:
        """Shapes at another batch size, which tell the batch's axis from others of its length."""
        rows = self._batch.rows
        other = 2 if rows != 2 else 1
        unshared = Numbers(0, range(1), shared=False)
        interceptor = Interceptor(unshared, root=self._root)
        with interceptor:
            self._run(other)
        return BatchSize(rows, other, tuple(interceptor.noise_shapes))

    def _interceptor(self, numbers: Numbers, recorder: Recorder | None) -> Interceptor:
        return Interceptor(
            numbers,
            root=self._root,
            chosen=self._chosen,
            batch=self._batch,
            executor=recorder,
        )


def _agree(a: Tensor, b: Tensor) -> bool:
    """Whether two computations of the same draw differ by no more than rounding."""
    loose = 5e-2 if a.dtype in (torch.bfloat16, torch.float16) else 1e-3
    finite = b[b.isfinite()].double()
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    return torch.allclose(a.double(), b.double(), loose, loose * scale + 1e-30, equal_nan=True)
