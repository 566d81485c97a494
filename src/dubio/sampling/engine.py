"""The engine: a stream of draws from any network, in chunks.

The network runs once per batch, with the noise of one draw, and is recorded; all draws then come
from playing the tape. Where a network cannot be taped (its branches depend on sampled values, it
draws random numbers itself, …) it runs once per draw instead, with the same noise.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from dubio.interception.interceptor import BatchSize, Interceptor, no_interception
from dubio.interception.numbers import Numbers
from dubio.interception.sites import Site, Sites
from dubio.sampling.absence import no_sites
from dubio.sampling.modes import gates, missed_gates, sampling_mode
from dubio.sampling.tape import Tape
from dubio.sampling.traced import Recorder, Traced, forget_tracing

logger = logging.getLogger("dubio")

# Values of one chunk, all layers together: within a core's share of the cache hierarchy and small
# enough that freed blocks are reused instead of being given back to the system page by page.
CHUNK_BYTES = 24 * 2**20

_verified: set[int] = set()  # signatures of tapes that gave what their network gave

Run = Callable[[int | None], Tensor]  # rows (None: the batch as it is) -> the selected output


class Engine:
    """Draws from one network on one batch.

    Args:
        run: Runs the network on the batch, or on another number of rows, and selects the output.
        roots: The network, or the networks that it calls if it is a function.
        rows: Number of rows of the batch.
        numbers: The noise of all draws.
        chosen: Which sites are noisy.
    """

    def __init__(
        self,
        run: Run,
        roots: Sequence[nn.Module],
        rows: int,
        numbers: Numbers,
        chosen: Callable[[Site], bool],
    ) -> None:
        self._run = run
        self._roots = roots
        self._numbers = numbers
        self._chosen = chosen
        self._gates = gates(roots)
        self._batch = self._probe(rows) if numbers.shared and rows > 1 else BatchSize(rows)
        self._tape, self._first = self._record()

    def chunks(self, chunk: int | None = None) -> Iterator[Tensor]:
        """All draws in order, ``chunk`` (or as many as fit the budget) at a time: (s, B, …)."""
        yield self._first[None]
        draws = len(self._numbers.indices)
        if self._tape is None or not self._repeats(self._tape):
            for index in range(1, draws):
                yield self._pass(self._numbers.part(index, index + 1), None)[0][None]
            return
        size = chunk or max(1, CHUNK_BYTES // max(1, self._tape.bytes_per_draw))
        for start in range(1, draws, size):
            yield self._play(self._tape, start, start + size)

    def _play(self, tape: Tape, start: int, stop: int) -> Tensor:
        device = self._first.device.type
        with no_interception(), torch.no_grad(), torch.autocast(device, enabled=False):
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

    def _record(self) -> tuple[Tape | None, Tensor]:
        """Run the network once: the tape if it can be played, and the first draw."""
        recorder = Recorder()
        numbers = self._numbers.part(0, 1)
        try:
            output, sites = self._pass(numbers, recorder)
            recorder.check_overwritten(output)
        except Exception as error:  # whatever it is, a pass without recording tells better
            logger.info("one pass per draw, since %s", recorder.tape.obstacle or repr(error))
            output, sites = self._pass(numbers, None)
            if not any(map(self._chosen, sites)):
                raise no_sites(self._roots, sites, self._chosen) from None
            return None, output
        finally:
            recorder.close()
            forget_tracing(self._roots)
        if not isinstance(output, Traced):
            raise no_sites(self._roots, sites, self._chosen)
        recorder.tape.finish(output.slot, shared=self._numbers.shared)
        if recorder.tape.obstacle is not None:
            logger.info("one pass per draw, since %s", recorder.tape.obstacle)
            return None, output.value
        return recorder.tape, output.value

    def _pass(self, numbers: Numbers, recorder: Recorder | None) -> tuple[Tensor, Sites]:
        """The output under the noise of one draw, and the sites on the way."""
        return run_once(
            lambda: self._run(None),
            self._roots,
            self._gates,
            lambda: Interceptor(
                numbers,
                roots=self._roots,
                chosen=self._chosen,
                batch=self._batch,
                executor=recorder,
                evaluating=True,
            ),
        )

    def _probe(self, rows: int) -> BatchSize:
        """Shapes at another batch size, which tell the batch's axis from others of its length."""
        other = 2 if rows > 2 else 3
        interceptor = Interceptor(
            Numbers(0, range(1), shared=False), roots=self._roots, evaluating=True
        )
        try:
            run_once(lambda: self._run(other), self._roots, self._gates, lambda: interceptor)
        except Exception as error:
            logger.info("the axis of the batch is guessed, since %r", error)
            return BatchSize(rows)
        return BatchSize(rows, other, tuple(interceptor.noise_shapes))


def run_once(
    run: Callable[[], Tensor],
    roots: Sequence[nn.Module],
    raised: set[nn.Module],
    interceptor: Callable[[], Interceptor],
) -> tuple[Tensor, Sites]:
    """Run a network under an interceptor; once more if gates turn out to hide dropout.

    Gates that are found are added to ``raised``.
    """
    while True:
        at_work = interceptor()
        with sampling_mode(roots, raised), torch.no_grad(), at_work:
            output = run()
        missed = missed_gates(roots, at_work.sites) - raised
        if not missed:
            return output, at_work.sites
        raised |= missed


def _agree(a: Tensor, b: Tensor) -> bool:
    """Whether two computations of the same draw differ by no more than rounding."""
    loose = 5e-2 if a.dtype in (torch.bfloat16, torch.float16) else 1e-3
    finite = b[b.isfinite()].double()
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    return torch.allclose(a.double(), b.double(), loose, loose * scale + 1e-30, equal_nan=True)
