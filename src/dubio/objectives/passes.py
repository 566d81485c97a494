"""Several passes over one batch that differ in the learnable masks alone."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils._pytree import tree_leaves

from dubio.likelihoods import Likelihood
from dubio.masks.learnable import Gate, Gated, LearnableBernoulli, gated, trapezoid_gate
from dubio.noise import inputs
from dubio.noise.inputs import Inputs, Select
from dubio.noise.interceptor import (
    BatchSize,
    Interceptor,
    OwnSite,
    Plainly,
)
from dubio.noise.numbers import Numbers
from dubio.noise.perturbations import Draw, Perturbation

_Result = TypeVar("_Result")
Batched: TypeAlias = tuple[
    LearnableBernoulli, torch.Size, int
]  # mask, its noise, rows of the batch


class Passes:
    """Runs a network on a batch: once, and again with other masks.

    All passes share the noise that is not being learned. What the network computes before its
    first learnable mask, the trunk, is computed once.

    Args:
        model: The network.
        likelihood: What outputs say about targets.
        numbers: The random numbers of the draw.
        x: Inputs.
        y: Targets.
        select: Which part of the output is meant.
        by_example: Remembers, from batch to batch, whose noise has one row for every example.
        learning: Whether divergences at the noise of the first pass will be asked for after it.

    Attributes:
        sites: What the learnable masks have drawn in the first pass.
    """

    def __init__(
        self,
        model: nn.Module,
        likelihood: Likelihood,
        numbers: Numbers,
        x: Inputs,
        y: Tensor,
        select: Select,
        by_example: dict[Batched, bool],
        *,
        learning: bool = False,
    ) -> None:
        self.sites: dict[LearnableBernoulli, OwnSite] = {}
        self._model = model
        self._likelihood = likelihood
        self._numbers = numbers
        self._x, self._y = x, y
        self._select = select
        self._by_example = by_example
        self._learning = learning
        self._trunk = Trunk()
        self._first: Interceptor | None = None
        self._generator: torch.Generator | None = None

    def only(self) -> Tensor:  # (B,)
        """Losses of all rows, if no other pass is to follow."""
        losses, self._first = self._run(Plainly())
        return losses

    def first(self, gate: Gate = trapezoid_gate) -> Tensor:  # (B,)
        """Losses of all rows."""
        with gated(_after(self._trunk, gate)):
            losses, self._first = self._run(self._trunk)
        own = self._first.own
        self.sites = {m: site for m, site in own.items() if isinstance(m, LearnableBernoulli)}
        return losses

    def again(self, gate: Gate) -> Tensor:  # (B,)
        """Losses of all rows when masks are made of the same noise by another rule."""
        replay = Replay(self._trunk)
        with kept_statistics(self._model), gated(_after(replay, gate)):
            return self._run(replay)[0]

    def recalled(self) -> AbstractContextManager[None]:
        """Let modules ask for their noise in the first pass again."""
        assert self._first is not None
        return self._first.recalled()

    def uniform(self, shape: torch.Size, like: Tensor) -> Tensor:
        """Random numbers beside those of the sites."""
        if self._generator is None:
            seed = self._numbers.seeds(-3)[0]
            self._generator = torch.Generator(like.device).manual_seed(seed)
        return like.new_empty(shape).uniform_(generator=self._generator)

    def sum_over_rows(self, mask: LearnableBernoulli, of_rows: Tensor, noise: Tensor) -> Tensor:
        """Sum what has the shape of a mask's noise over rows, weighted by values of rows.

        Where one mask is for several rows, or several for one, by the sum of those values.
        """
        site = self.sites[mask]
        if site.rows is None or len(of_rows) == 1 or not self._is_by_example(mask):
            return of_rows.sum() * noise
        of_rows = of_rows.to(noise.dtype)
        total: Tensor = torch.tensordot(of_rows, noise, dims=([0], [site.rows]))
        return total.unsqueeze(site.rows)

    def by_row(self, of_rows: Tensor, of_masks: dict[LearnableBernoulli, Tensor]) -> Tensor:
        """Add to values of rows what each row has at every mask: (B,), or (1,) if rows share.

        Where one mask is for several rows, or several for one, only the sum over rows is known.
        """
        apart = all(map(self._is_by_example, of_masks))
        total = of_rows if apart else of_rows.sum()[None]
        for mask, values in of_masks.items():
            rows = self.sites[mask].rows
            kept = [axis for axis in range(values.dim()) if not apart or axis != rows]
            total = total + values.sum(kept)
        return total

    def _batched(self, mask: LearnableBernoulli) -> Batched:
        return mask, self.sites[mask].noise.shape, inputs.count_rows(self._x)

    def _is_by_example(self, mask: LearnableBernoulli) -> bool:
        if self._batched(mask) not in self._by_example:
            self._by_example.update(self._find_rows(inputs.count_rows(self._x)))
        return self._by_example[self._batched(mask)]

    def _find_rows(self, rows: int) -> dict[Batched, bool]:
        """Which masks have a row of noise for every example: they have one less for one less.

        An axis as long as the batch need not be the batch's: it may be that of time. And where
        rows meet, as in batch normalisation, a mask acts on the losses of other rows as well:
        then no mask is taken for that of one example.
        """
        fewer: dict[nn.Module | None, torch.Size] = {}
        if rows > 1:
            fewer, without_last = self._watch(torch.arange(rows - 1))
            _, all_of_them = self._watch(torch.arange(rows))
            if not _same(without_last, all_of_them[: rows - 1]):
                fewer = {}
        found = {}
        for mask, site in self.sites.items():
            shape, axis = site.noise.shape, site.rows
            known = axis is not None and shape[axis] == rows and mask in fewer
            found[self._batched(mask)] = known and fewer[mask][axis or 0] == rows - 1
        return found

    def _watch(self, rows: Tensor) -> tuple[dict[nn.Module | None, torch.Size], Tensor]:
        """Shapes of noise and outputs of a pass without noise over some rows, if there is one."""
        batch = BatchSize(len(rows))
        watcher = Interceptor(self._numbers, roots=None, batch=batch, watching=True)
        try:
            with torch.no_grad(), kept_statistics(self._model), watcher:
                outputs = inputs.choose(inputs.call(self._model, self._x, rows), self._select)
        except Exception:  # then losses are not told apart: noisier, and as unbiased
            return {}, torch.empty(0)
        return {s.module: watcher.noise_shapes[s.index] for s in watcher.sites}, outputs

    def _run(self, executor: Plainly) -> tuple[Tensor, Interceptor]:
        interceptor = Interceptor(
            self._numbers,
            roots=None,
            batch=BatchSize(inputs.count_rows(self._x)),
            executor=executor,
            learning=self._learning and self._first is None,
        )
        with interceptor:
            outputs = inputs.choose(inputs.call(self._model, self._x), self._select)
        return -self._likelihood.log_prob(outputs[None], self._y)[0], interceptor


def _after(executor: "Trunk | Replay", gate: Gate) -> Gate:
    """The same gate, with a word to the executor that the trunk ends there."""

    def at_a_mask(mask: LearnableBernoulli, keep: Tensor, noise: Tensor, axis: int) -> Gated:
        executor.end_of_trunk()
        return gate(mask, keep, noise, axis)

    return at_a_mask


class Trunk(Plainly):
    """Carries functions out and remembers the results, up to the first learnable mask."""

    def __init__(self) -> None:
        self.results: list[tuple[object, Any]] = []
        self.noises: dict[tuple[int, int], Tensor] = {}
        self._open = True
        self._versions: list[tuple[Tensor, int]] = []

    def end_of_trunk(self) -> None:
        """Remember no more."""
        if self._open:
            self._open = False
            tensors = (x for x in tree_leaves(self.results) if isinstance(x, Tensor))
            self._versions = [(x, x._version) for x in tensors if not x.is_inference()]

    @property
    def intact(self) -> bool:
        """Whether nothing has been written over the results since."""
        return not self._open and all(x._version == version for x, version in self._versions)

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call the function."""
        return self._remember(function, super().call(function, args, kwargs))

    def perturb(self, perturbation: Perturbation, numbers: Numbers, x: Tensor) -> Tensor:
        """Apply the noise of the one draw."""
        result = super().perturb(perturbation, numbers, x)
        if isinstance(perturbation, Draw):
            self.noises[perturbation.site, perturbation.call] = result
        return self._remember(type(perturbation), result)

    def perturb_in_place(self, perturbation: Perturbation, numbers: Numbers, x: Tensor) -> Tensor:
        """Apply the noise of the one draw to x itself."""
        return self._remember(
            type(perturbation), super().perturb_in_place(perturbation, numbers, x)
        )

    def _remember(self, what: object, result: _Result) -> _Result:
        if self._open:
            self.results.append((what, result))
        return result


class Replay(Plainly):
    """Gives the results of a trunk again as long as the network asks for the same functions."""

    def __init__(self, trunk: Trunk) -> None:
        self._noises = trunk.noises
        self._results = iter(trunk.results if trunk.intact else ())

    def end_of_trunk(self) -> None:
        """Compute from here on."""
        self._results = iter(())

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The known result of the function, or a new one."""
        known = self._known(function)
        return super().call(function, args, kwargs) if known is None else known[0]

    def perturb(self, perturbation: Perturbation, numbers: Numbers, x: Tensor) -> Tensor:
        """The known result of the noise, or the same noise applied to x."""
        known: tuple[Tensor] | None = self._known(type(perturbation))
        if known is not None:
            return known[0]
        if isinstance(perturbation, Draw):
            return self._noises[perturbation.site, perturbation.call]
        return super().perturb(perturbation, numbers, x)

    def perturb_in_place(self, perturbation: Perturbation, numbers: Numbers, x: Tensor) -> Tensor:
        """The known result of the noise, or the same noise applied to x itself."""
        known: tuple[Tensor] | None = self._known(type(perturbation))
        return super().perturb_in_place(perturbation, numbers, x) if known is None else known[0]

    def _known(self, what: object) -> tuple[Any] | None:
        function, result = next(self._results, (None, None))
        if function is what:
            return (result,)
        self.end_of_trunk()
        return None


def _same(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or not len(one):
        return False
    scale = float(other.abs().amax())
    return bool(((one - other).abs() <= 1e-3 * scale).all())


@contextmanager
def kept_statistics(model: nn.Module) -> Iterator[None]:
    """Let batch normalisation update copies of its statistics: this batch was counted before."""
    owners = [module for module in model.modules() if isinstance(module, _NormBase)]
    own = [dict(module._buffers) for module in owners]
    try:
        for module, buffers in zip(owners, own, strict=True):
            for name, buffer in buffers.items():
                module._buffers[name] = None if buffer is None else buffer.clone()
        yield
    finally:
        for module, buffers in zip(owners, own, strict=True):
            module._buffers.update(buffers)
