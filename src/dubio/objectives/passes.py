"""Several passes over one batch that differ in the learnable masks alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dubio.masks.learnable import Gate, Gated, HalvesGate, LearnableBernoulli, trapezoid_gate
from dubio.noise import generators, inputs
from dubio.noise.eager import without_compilation
from dubio.noise.gates import Gates
from dubio.noise.generators import global_states, set_global_states, unmoved
from dubio.noise.inputs import Inputs, Select
from dubio.noise.modes import raising
from dubio.noise.placing import KnownRows
from dubio.noise.plainly import Plainly
from dubio.noise.protocols import RandomNumbers
from dubio.noise.requests import OwnSite, Request
from dubio.noise.run import Pass, run_pass
from dubio.noise.stochastic import Stochastic
from dubio.noise.tracking import RowTracker
from dubio.noise.vectorised import is_vectorised
from dubio.objectives.kept import StateBeforeStep
from dubio.objectives.meeting import Meetings
from dubio.objectives.record import Record, recording
from dubio.objectives.trunk import TrunkMemory, TrunkReplay

_SMALL = 2**13  # numbers of a batch


@dataclass(frozen=True)
class ObjectiveBatch:
    """A network at work on a batch.

    Attributes:
        model: The network.
        x: Its inputs.
        select: Which part of the output is meant.
        y: Its targets.
        weight: How much each row counts; None if all count alike.  # (B,)
        losses: The loss of every row, of outputs and targets.  # (B,)
        rows: How many rows.
        modules: All modules of the network.
        unknown: Those of which nobody knows what they do.
        intercept: Whether noise that is not dubio's comes from the numbers of the pass.
        foreign: Whether there may be such noise.
        trunk: Whether there is something to compute before the first learnable mask.
        gates: Which flags must be up for noise that is not dubio's.
        apart: Whether rows are known not to meet, and to stay in their order.
        own_losses: Whether the loss of a row is known to depend on its outputs alone.
        together: Modules with noise of their own that may draw it together, by class.
    """

    model: nn.Module
    x: Inputs
    select: Select
    y: Tensor
    weight: Tensor | None
    losses: Callable[[Tensor, Tensor], Tensor]
    rows: int
    modules: Sequence[nn.Module]
    unknown: Sequence[nn.Module]
    intercept: bool
    foreign: bool
    trunk: bool
    gates: Gates
    apart: bool
    own_losses: bool
    together: Mapping[type[Stochastic], Sequence[Stochastic]]


class Passes:
    """Runs a network on a batch: once, and again with other masks.

    All passes share the noise that is not being learned. What the network computes before its
    first learnable mask, the trunk, is computed once.

    Args:
        batch: The network, and what it is at work on.
        numbers: The random numbers of the draw.
        meetings: Remembers, from batch to batch, whether rows meet.
        kept: What the network keeps, as it is before the step.
        learning: Whether divergences at the noise of the first pass will be asked for after it.

    Attributes:
        sites: What the learnable masks have drawn in the first pass.
        has_trunk: Whether there was something to compute before the first of them.
    """

    def __init__(
        self,
        batch: ObjectiveBatch,
        numbers: RandomNumbers,
        meetings: Meetings,
        kept: StateBeforeStep,
        *,
        learning: bool = False,
    ) -> None:
        self.sites: dict[LearnableBernoulli, OwnSite] = {}
        self._batch = batch
        self._numbers = numbers
        self._meetings = meetings
        self._kept = kept
        self._learning = learning
        self.has_trunk = batch.trunk
        self._trunk = TrunkMemory() if batch.trunk and not kept.deep else None
        self._first: Pass | None = None
        self._start: list[Tensor] = []
        self._twice = False
        self._record: Record | None = None
        self._apart = batch.apart
        self._generator: torch.Generator | None = None

    def only(self) -> Tensor:  # (B,)
        """Return losses of all rows, if no other pass is to follow."""
        return self._run(None, None)

    def first(self, gate: Gate = trapezoid_gate, *, by_row: bool = True) -> Tensor:  # (B,)
        """Return losses of all rows.

        Args:
            gate: How masks make zeros and ones of their noise.
            by_row: Whether it matters whose loss is whose, which takes some time to find out.
        """
        batch = self._batch
        if batch.foreign and not batch.intercept:
            self._start = global_states()
        if by_row and batch.rows > 1 and not (batch.apart or self._numbers.shared):
            self._record = Record()
        losses = self._run(gate, self._trunk)
        self._note_sites()
        return losses

    def _note_sites(self) -> None:
        assert self._first is not None
        own = self._first.own
        self.sites = {
            mask: site
            for mask, site in own.items()
            if isinstance(mask, LearnableBernoulli) and mask.logit.requires_grad
        }

    def again(self, gate: Gate) -> Tensor:  # (B,)
        """Return losses of all rows when masks are made of the same noise by another rule."""
        replay = None if self._trunk is None else TrunkReplay(self._trunk)
        with _restarted(self._start):
            return self._run(gate, replay)

    def pair(self, gate: Gate, other: Gate, *, learn: bool) -> tuple[Tensor, Tensor]:  # (B,) each
        """Return losses of all rows for masks that are made of the same noise by two rules.

        Where rows do not meet it is one pass over all rows twice, which takes fewer calls.

        Args:
            gate: The first rule.
            other: The second.
            learn: Whether the second losses are differentiated, too; if not they are detached, and
                large batches are not doubled, which would cost the way back.
        """
        x = self._batch.x
        small = isinstance(x, Tensor) and (learn or x.numel() <= _SMALL)
        if self._batch.apart and small and self._batch.rows > 1:
            self._twice = True
            try:
                one, another = self._run(HalvesGate(gate, other), None).chunk(2)
            except (TypeError, ValueError):  # which is to be told of the rows that there are
                self._twice, self._first = False, None
                self._run(gate, None)
                raise
            self._note_sites()
            return one, another if learn else another.detach()
        one = self.first(gate, by_row=not learn)
        with torch.set_grad_enabled(learn and torch.is_grad_enabled()):
            return one, self.again(other)

    def recalled(self) -> AbstractContextManager[None]:
        """Let modules ask for their noise in the first pass again."""
        assert self._first is not None
        return self._first.recalled()

    def uniform(self, shape: torch.Size, like: Tensor) -> Tensor:
        """Random numbers beside those of the sites."""
        if self._generator is None:
            seed = self._numbers.seeds(-3)[0]
            self._generator = generators.on(like.device).manual_seed(seed)
        return like.new_empty(shape).uniform_(generator=self._generator)

    def keep(self, mask: LearnableBernoulli) -> Tensor:
        """Return the probabilities of keeping, laid out along the noise of a mask."""
        (noise,) = self.sites[mask].noises
        return torch.sigmoid(mask.logit_along(noise, self._request(mask).units))

    def sum_over_rows(self, mask: LearnableBernoulli, of_rows: Tensor, noise: Tensor) -> Tensor:
        """Sum what has the shape of a mask's noise over rows, weighted by values of rows.

        Where one mask is for several rows, or several for one, by the sum of those values.
        """
        rows = self._request(mask).rows
        if rows is None or len(of_rows) == 1 or not self._is_by_example(mask):
            return of_rows.sum() * noise
        of_rows = of_rows.to(noise.dtype)
        if noise.dim() == 2 and rows == 0:
            return (of_rows @ noise)[None]
        total: Tensor = torch.tensordot(of_rows, noise, dims=([0], [rows]))
        return total.unsqueeze(rows)

    def by_row(self, of_rows: Tensor, of_masks: dict[LearnableBernoulli, Tensor]) -> Tensor:
        """Add to values of rows what each row has at every mask: (B,), or (1,) if rows share.

        Where one mask is for several rows, or several for one, only the sum over rows is known.
        """
        apart = all(map(self._is_by_example, of_masks))
        total = of_rows if apart else of_rows.sum()[None]
        for mask, values in of_masks.items():
            rows = self._request(mask).rows
            kept = [axis for axis in range(values.dim()) if not apart or axis != rows]
            total = total + values.sum(kept)
        return total

    def _request(self, mask: LearnableBernoulli) -> Request:
        (request,) = self.sites[mask].requests
        return request

    def _is_by_example(self, mask: LearnableBernoulli) -> bool:
        """Return whether a mask has a row of noise for every example, that acts on its loss alone.

        An axis as long as the batch need not be the batch's: it may be that of time. And where
        rows meet, as in batch normalisation, a mask acts on the losses of other rows as well.
        """
        (noise,), rows = self.sites[mask].given, self._request(mask).rows
        return self._apart and rows is not None and noise.shape[rows] == self._batch.rows

    def _run(self, gate: Gate | None, executor: TrunkMemory | TrunkReplay | None) -> Tensor:
        return self._kept.run(lambda: self._pass(gate, executor))

    def _pass(self, gate: Gate | None, executor: TrunkMemory | TrunkReplay | None) -> Tensor:
        batch = self._batch
        given, y, weight = inputs.copied(batch.x), batch.y, batch.weight
        if self._twice:
            assert isinstance(given, Tensor)
            given, y = torch.cat([given, given]), torch.cat([y, y])
            weight = None if weight is None else torch.cat([weight, weight])
        if isinstance(executor, TrunkMemory):
            executor.begin([*inputs.tensors(given), *self._kept.tensors()])
        intercept = batch.intercept or executor is not None
        followed = batch.intercept and self._numbers.shared
        running = Pass(
            self._numbers,
            intercept=intercept,
            roots=None,
            batch=RowTracker(inputs.with_rows(given)) if followed else KnownRows(batch.rows),
            executor=executor or Plainly(),
            learning=self._learning and self._first is None,
            trains=True,
            gate=gate,
            at_masks=None if executor is None else executor.end_of_trunk,
            again=self._first,
            twice=given if self._twice and isinstance(given, Tensor) else None,
        )
        around = batch.gates.around()
        if batch.gates.raised:
            around.append(raising(batch.gates.raised))
        if batch.foreign and not batch.intercept:
            around.append(without_compilation())
        if self._learning and self._first is None:
            for kind, modules in batch.together.items():
                kind.draw_together(modules, running)

        def network() -> Tensor:
            return inputs.choose(inputs.apply(batch.model, given), batch.select)

        def judge(outputs: Tensor) -> Tensor:  # (B,)
            losses = batch.losses(outputs, y)
            return losses if weight is None else losses * weight.to(losses.dtype)

        if self._first is not None or self._record is None:
            losses = judge(run_pass(network, running, around=around))
        else:
            record = self._record
            assert running.gate is not None
            running.gate = _begun(record, running, batch.rows)
            with recording(record):
                judged = run_pass(network, running, around=around)
                if not batch.own_losses:
                    judged = judge(judged)
            losses = judge(judged) if batch.own_losses else judged
            self._apart = not self._meetings.rows_meet(record, record.place(judged), batch.rows)
        if self._first is None:
            self._first = running
            self.has_trunk = _lies_apart(running.first_input, given)
        return losses


def _begun(record: Record, running: Pass, rows: int) -> Gate:
    """Return the gate of a pass, with a note of the masks that have a row for every example."""
    gate: Gate = running.gate

    def noted(mask: LearnableBernoulli, keep: Tensor, noise: Tensor, axis: int) -> Gated:
        with torch._C._DisableTorchDispatch():  # nothing in here is for the record
            gated = gate(mask, keep, noise, axis)
        (request,) = running.own[mask].requests
        if request.rows is not None and noise.shape[request.rows] == rows:
            record.begin(gated.z, request.rows)
        return gated

    return noted


def _lies_apart(tensor: Tensor | None, given: Inputs) -> bool:
    """Return whether a tensor is another than those given, and no view of them."""
    if tensor is None or is_vectorised(tensor):
        return False
    if tensor is given:
        return False
    own = tensor.untyped_storage().data_ptr()
    return all(own != x.untyped_storage().data_ptr() for x in inputs.tensors(given))


@contextmanager
def _restarted(states: list[Tensor]) -> Iterator[None]:
    """Let torch's global generators start from here, and go on as if nothing had been drawn."""
    if not states:
        yield
        return
    with unmoved():
        set_global_states(states)
        yield
