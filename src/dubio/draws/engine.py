"""The engine: a stream of draws from any network, in chunks.

The network runs once per batch, with the noise of one draw, and is recorded; all draws then come
from playing the tape. Where a network cannot be taped (its branches depend on sampled values, it
draws random numbers itself, …) it runs once per draw instead, with the same noise.

Before a tape is trusted it is compared with a plain pass under other noise. A comparison in which
nothing could differ, since all draws are the same, does not count and is made again.
"""

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dubio.draws.absence import no_sites
from dubio.draws.surroundings import fed, other_generators, quietly
from dubio.draws.tape import Tape
from dubio.draws.traced import InsideTransformError, Recorder, UnshareableError
from dubio.draws.trunk import Ownership, Trunk
from dubio.draws.trust import agree
from dubio.noise.finding import FewRows, find_rows, follow_rows
from dubio.noise.gates import Gates, watch
from dubio.noise.generators import global_states, set_global_states
from dubio.noise.inputs import Inputs, count_rows, with_rows
from dubio.noise.numbers import Numbers
from dubio.noise.placing import KnownRows, OtherSiteError, RowPlaces
from dubio.noise.plainly import Plainly
from dubio.noise.protocols import RandomNumbers
from dubio.noise.run import BatchAxes, Pass, run_pass
from dubio.noise.sites import Site, Sites
from dubio.noise.tracking import RowTracker
from dubio.noise.upkeep import Beginning

logger = logging.getLogger("dubio")

# Values of one chunk, all layers together: within a core's share of the cache hierarchy and small
# enough that freed blocks are reused instead of being given back to the system page by page.
CHUNK_BYTES = 24 * 2**20

_TRIAL = 20_230_417  # the seed of the noise under which tapes are tried

# indices of rows (None: the whole batch) -> selected output
RunOnRows = Callable[[Tensor | None], Tensor]


class Engine:
    """Draws from one network on one batch.

    Args:
        run: Runs the network on the batch, or on another number of rows, and selects the output.
        roots: The network, or the networks that it calls if it is a function.
        batch: The batch.
        numbers: The noise of all draws.
        chosen: Which sites are noisy.
        batch_axis: Where the batch is at some sites, if rows are to share noise.
        gates: Which flags must be up.
        inputs: The tensors that the network is called with, if the tape is to begin there.
        owned: The tensors of the network, then.
        trusted: Signatures of tapes of this network that gave what plain passes gave.

    Attributes:
        tape: The tape, if the network can be taped and the tape repeats it.
        varied: Whether draws have differed where it was compared with a plain pass.
        first: The first draw.
        proven: Whether also inputs have, if it is to serve for others.
    """

    def __init__(
        self,
        run: RunOnRows,
        roots: Sequence[nn.Module],
        batch: Inputs,
        numbers: RandomNumbers,
        chosen: Callable[[Site], bool],
        batch_axis: BatchAxes,
        gates: Gates,
        inputs: Sequence[Tensor] | None = None,
        owned: Sequence[Tensor] = (),
        trusted: set[Hashable] | None = None,
    ) -> None:
        self._run = run
        self._roots = roots
        self._numbers = numbers
        self._chosen = chosen
        gates.check(chosen)
        self._gates = gates
        self._trusted = set() if trusted is None else trusted
        self.varied = self.proven = False
        self._gradients = False  # whether passes leave a graph behind
        self._feeds_torch = False  # whether the network draws from torch's generator unseen
        self._doubtful: Sites | None = None  # the sites, if the output may not depend on them
        self._before = global_states()
        self._batch = batch
        self._batch_axis = batch_axis
        self._shape_of_row = torch.Size()  # in the output, as few rows have it
        self._inputs = inputs
        self._owned = owned
        self._fixed: list[Any] = []  # what the tape starts from
        with gates.lock:
            self._beginning = Beginning(gates.keeping)  # from which all draws start
            self._rows = self._find_rows()
            self.tape, self.first, self.sites = self._record()
            if numbers.shared:
                self._check_one_function()

    @property
    def for_other_inputs(self) -> bool:
        """Whether the tape begins at the inputs, and can be played at any time."""
        return self._inputs is not None and not self._gates.exclusive

    @property
    def reads_flags(self) -> bool:
        """Whether anybody reads flags of the network, so that values may decide what they do."""
        return self._gates.reads

    def chunks(self, chunk: int | None = None) -> Iterator[Tensor]:
        """Yield all draws in order, ``chunk`` (or as many as fit) at a time: (s, B, …)."""
        yield self.first[None]
        draws = len(self._numbers.indices)
        if self.tape is None:
            yield from self._one_by_one(draws)
            return
        size = chunk or fitting(self.tape)
        for start in range(1, draws, size):
            yield self._play(self.tape, start, start + size)

    def differentiable(self) -> Iterator[Tensor]:
        """Yield all draws in order, (B, …) each, by plain passes that keep gradients."""
        self._gradients = True
        try:
            for index in range(len(self._numbers.indices)):
                yield self._again(self._numbers.part(index, index + 1))[0]
        finally:
            self._gradients = False

    def _one_by_one(self, draws: int) -> Iterator[Tensor]:
        varies = draws == 1
        for index in range(1, draws):
            output, _ = self._again(self._numbers.part(index, index + 1))
            varies = varies or not torch.equal(output, self.first)
            yield output[None]
        if self._doubtful is not None and not varies:
            raise no_sites(self._roots, self._doubtful, self._chosen)

    def _play(self, tape: Tape, start: int, stop: int) -> Tensor:
        with self._gates.lock, quietly():
            return tape.play(self._fixed, self._numbers.part(start, stop))

    def _repeats(self, recorder: Recorder, first: Tensor) -> bool:
        """Return whether playing the tape gives what the network gives."""
        tape, trunk = recorder.tape, recorder.trunk
        with self._gates.lock, quietly():
            if trunk is not None and tape.doubt is not None:
                self._fixed = tape.resume(trunk.values)
            else:
                self._fixed = tape.start(self._inputs or ())
        self._signature = tape.signature, trunk is None, tape.doubt
        self.varied = self.proven = self._signature in self._trusted
        if self.proven:
            return True
        if not self._agrees(tape, first):
            logger.warning(
                "a recorded pass did not repeat; the network runs once per draw instead, with the "
                "same results. Please report this network."
            )
            return False
        if self.proven:
            self.trust()
        return True

    def trust(self) -> None:
        """Do without further comparisons for tapes like this one."""
        self._trusted.add(self._signature)

    def _agrees(self, tape: Tape, first: Tensor) -> bool:
        """Compare the tape with the recorded pass, and with a plain one under other noise.

        If it is to serve for other inputs, then also on other inputs: the same rows turned around.
        """
        numbers = Numbers(_TRIAL, range(2), self._numbers.shared)
        turned = self._turned() if self._inputs is not None and tape.doubt is None else None
        try:
            plain, _ = self._again(numbers.part(1, 2), turned)
        except Exception:  # rows may have to be in order
            plain, _ = self._again(numbers.part(1, 2))
            turned = None
        try:
            with quietly():
                repeated = tape.play(self._fixed, self._numbers.part(0, 1))[0]
                fixed = self._fixed if turned is None else tape.start(self._in_order(turned))
                trial = tape.play(fixed, numbers)
        except Exception as error:  # whatever it is, the network itself does not fail
            logger.info("the recorded pass cannot be played: %r", error)
            return False
        if not (agree(repeated, first, trial) and agree(trial[1], plain, trial, first)):
            return False
        differs = trial[0] != plain
        self.varied = 2 * int(differs.sum()) >= differs.numel()
        serves_others = self._inputs is not None and tape.doubt is None
        self.proven = self.varied and (turned is not None or not serves_others)
        return True

    def _turned(self) -> Tensor | None:
        """Return the order of rows turned around, if that makes a difference."""
        turned = torch.arange(self._rows.rows).flip(0)
        same = all(map(torch.equal, self._in_order(turned), self._inputs or ()))
        return None if same else turned

    def _in_order(self, order: Tensor) -> list[Tensor]:
        return [
            x[order.to(x.device)] if x.dim() and len(x) == self._rows.rows else x
            for x in self._inputs or ()
        ]

    def _record(self) -> tuple[Tape | None, Tensor, Sites]:
        """Run the network once: the tape if it can be played, the first draw, and the sites."""
        shared = self._numbers.shared
        tape, numbers = Tape(), self._numbers.part(0, 1)
        trunk = None if self._inputs is None else Trunk(tape, self._inputs, self._owned)
        own = Ownership(self._roots) if trunk is None else trunk.owns
        recorder = Recorder(tape, trunk, shared=shared, own=own)
        elsewhere = other_generators()
        try:
            with recorder:
                output, sites = self._beginning.first(lambda: self._pass(numbers, recorder))
            if self._gates.draws or other_generators() != elsewhere:
                tape.obstacle = "random numbers of Python or numpy were drawn meanwhile"
            slot = recorder.slot(output)
        except (UnshareableError, InsideTransformError):
            set_global_states(self._before)
            raise
        except Exception as error:  # whatever it is, a pass without recording tells better
            if isinstance(error, OtherSiteError) and isinstance(self._rows, FewRows):
                logger.info("rows are followed through the whole batch, since %s", error)
                self._rows = follow_rows(self._watch, with_rows(self._batch), self._rows.rows)
                return self._record()
            if self._inputs is not None:
                return self._record_less(tape.obstacle or repr(error))
            logger.info("one pass per draw, since %s", tape.obstacle or repr(error))
            self._feeds_torch = recorder.met_unfed_randomness
            output, sites = self._beginning.first(lambda: self._pass(numbers, None))
            if self._feeds_torch:
                self._doubtful = sites
            elif not any(map(self._chosen, sites)):
                raise no_sites(self._roots, sites, self._chosen) from None
            return None, output, sites
        if slot is not None:
            tape.finish(slot)
        elif tape.obstacle is None and self._is_constant(output, sites):
            raise no_sites(self._roots, sites, self._chosen)
        else:  # a branch may have chosen it, or it was computed out of sight
            tape.obstacle = tape.obstacle or "the output is computed out of sight"
            self._doubtful = sites
        if tape.obstacle is not None:
            logger.info("one pass per draw, since %s", tape.obstacle)
            return None, output, sites
        if self._repeats(recorder, output):
            return tape, output, sites
        return None, output, sites

    def _is_constant(self, output: Tensor, sites: Sites) -> bool:
        """Return whether the output is the same under other noise."""
        if not any(map(self._chosen, sites)):
            return True
        trial = Numbers(_TRIAL, range(1), self._numbers.shared)
        other, _ = self._again(trial)
        return torch.equal(other, output)

    def _record_less(self, reason: str) -> tuple[Tape | None, Tensor, Sites]:
        """Record from the first noise on."""
        logger.info("the part before the noise is not recorded, since %s", reason)
        self._inputs = None
        return self._record()

    def _again(self, numbers: RandomNumbers, order: Tensor | None = None) -> tuple[Tensor, Sites]:
        """Return a further pass, from the state that the network was in before the first."""
        with self._gates.lock:
            return self._beginning.again(lambda: self._pass(numbers, None, order))

    def _pass(
        self, numbers: RandomNumbers, recorder: Recorder | None, order: Tensor | None = None
    ) -> tuple[Tensor, Sites]:
        """Return the output under the noise of one draw, and the sites on the way."""
        try:
            return self._pass_knowing(self._rows, numbers, recorder, order)
        except OtherSiteError:
            if recorder is not None:
                raise
        followed = RowTracker(with_rows(self._batch))
        return self._pass_knowing(followed, numbers, None, order)

    def _pass_knowing(
        self,
        rows: RowPlaces,
        numbers: RandomNumbers,
        recorder: Recorder | None,
        order: Tensor | None,
    ) -> tuple[Tensor, Sites]:
        running = Pass(
            numbers,
            roots=self._roots,
            chosen=self._chosen,
            batch=rows,
            batch_axis=self._batch_axis,
            executor=recorder or Plainly(),
            evaluating=True,
        )
        around = self._gates.around()
        if self._feeds_torch:
            around.append(fed(numbers))
        if self._gradients:
            around.append(torch.enable_grad())
        gates = (self._roots, self._gates.raised)
        output = run_pass(lambda: self._run(order), running, gates=gates, around=around)
        return output, running.sites

    def _find_rows(self) -> RowPlaces:
        """Return where rows are at each site, if they are to share noise."""
        rows = count_rows(self._batch)
        if not self._numbers.shared:
            return KnownRows(rows)
        return find_rows(self._watch, with_rows(self._batch), rows)

    def _watch(self, order: Tensor | None, places: RowPlaces) -> Pass:
        def network() -> None:
            self._shape_of_row = self._run(order).shape[1:]

        return self._beginning.again(lambda: watch(network, self._roots, self._gates, places))

    def _check_one_function(self) -> None:
        """Raise an error for draws that are not one function of a row.

        Where shapes may depend on the rows that are there, some rows are compared with what they
        give alone; unless they give something else without noise as well.
        """
        rows = self._rows.rows
        if len(self.first) != rows:
            raise ValueError(
                f"shared=True: expected an output with the {rows} rows of x, got shape "
                f"{tuple(self.first.shape)}; rows come first in x and in the output"
            )
        here, elsewhere = self.first.shape[1:], self._shape_of_row
        if here != elsewhere:
            raise ValueError(
                f"shared=True: expected outputs of one shape for each row, got {tuple(here)} in "
                f"this batch and {tuple(elsewhere)} in a smaller one; tensors among the inputs "
                f"that are as long as the batch but have no rows belong into a function around "
                f"the network"
            )
        known = self._rows
        if rows == 1 or not isinstance(known, KnownRows):
            return
        if not any(place.grows for _, place in known.places):
            return
        plain = self._without_noise(None)
        for row in sorted({0, rows // 3, 2 * rows // 3, rows - 1}):
            order, followed = torch.tensor([row]), RowTracker(with_rows(self._batch))
            followed.rows = 1
            numbers = self._numbers.part(0, 1)
            try:
                plain_alone = self._without_noise(order)
                alone, _ = self._beginning.again(
                    partial(self._pass_knowing, followed, numbers, None, order)
                )
            except Exception as error:
                logger.info("rows are not compared with what they give alone, since %r", error)
                return
            there = slice(row, row + 1)
            same = agree(plain_alone[:1], plain[there], plain)
            if same and not agree(alone[:1], self.first[there], self.first):
                raise ValueError(
                    f"shared=True: expected draws that are one function of each row, got other "
                    f"values for row {row} alone than for the batch, since noise moves with the "
                    f"rows that are there; pad sequences at their end, and to the same length in "
                    f"all batches, or use shared=False"
                )

    def _without_noise(self, order: Tensor | None) -> Tensor:
        outputs: list[Tensor] = []

        def network() -> None:
            outputs.append(self._run(order))

        self._beginning.again(lambda: watch(network, self._roots, self._gates))
        return outputs[0]


def fitting(tape: Tape) -> int:
    """Return how many draws to compute at a time."""
    return max(1, CHUNK_BYTES // max(1, tape.bytes_per_draw))
