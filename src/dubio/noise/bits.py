"""Exact Bernoulli bits at a quarter of the price of ``uniform < keep``.

On a CPU a mask entry needs one random byte, not four: with ``t = ceil(256 keep)``,

    byte < t   happens with probability t/256 >= keep,

and a few of the entries kept so are erased again, independently with probability
``1 - keep / (t/256)``, which is at most 1/128. Their positions are the arrival times of a
Bernoulli process, so they come from geometric gaps without touching the other entries. For
``keep < 1/2`` the roles of keeping and dropping are exchanged. The entries are independent and
``P(kept) = keep`` up to the rounding of a float64.

Other devices have random numbers in plenty, and some have no float64: there torch's own Bernoulli
numbers are taken, the very ones of its dropout.
"""

import math

import torch
from torch import Tensor

from dubio.noise import generators

# Below this many entries a plain float64 comparison is faster than bytes and gaps.
SMALL = 1024


def fill_bernoulli(masks: Tensor, keep: float, seeded: "Generators") -> Tensor:
    """Fill every row of ``masks`` with independent Bernoulli(keep) zeros and ones.

    Args:
        masks: A contiguous floating-point tensor to write into.  # (S, n)
        keep: The probability of a one.
        seeded: One seeded generator per row, in order.

    Returns:
        ``masks`` itself.
    """
    draws, entries = masks.shape
    if keep >= 1.0 or keep <= 0.0:
        return masks.fill_(float(keep >= 1.0))
    if not masks.is_cpu:
        for row, generator in zip(masks, seeded, strict=True):
            row.bernoulli_(keep, generator=generator)
        return masks
    if entries <= SMALL:
        uniform = torch.empty(draws, entries, dtype=torch.float64, device=masks.device)
        rows = (uniform,) if draws == 1 else uniform.unbind()
        for row, generator in zip(rows, seeded, strict=True):
            row.uniform_(generator=generator)
        return torch.lt(uniform, keep, out=masks)

    threshold, flips_to, flip_rate = _split(keep)
    words = torch.empty(draws, -(-entries // 8), dtype=torch.int64, device=masks.device)
    events = _enough_events(entries, flip_rate)
    uniform = torch.empty(draws, events, dtype=torch.float64, device=masks.device)
    coarse = 0 < threshold < 256
    for word, gap, generator in zip(words, uniform, seeded, strict=True):
        if coarse:
            word.random_(-(2**63), None, generator=generator)
        if events:
            gap.uniform_(generator=generator)
    if coarse:
        torch.lt(words.view(torch.uint8)[:, :entries], threshold, out=masks)
    else:
        masks.fill_(1.0 if threshold else 0.0)
    if events:
        masks.view(-1).index_fill_(0, _arrivals(uniform, flip_rate, entries), flips_to)
    return masks


def _split(keep: float) -> tuple[int, float, float]:
    """A byte threshold, the value that rare flips write, and the rate of those flips."""
    if keep >= 0.5:
        threshold = math.ceil(256 * keep)
        return threshold, 0.0, 1.0 - keep / (threshold / 256)
    threshold = math.floor(256 * keep)
    return threshold, 1.0, (keep - threshold / 256) / (1.0 - threshold / 256)


def _enough_events(entries: int, rate: float) -> int:
    """So many gaps that the last arrival lies beyond ``entries`` but for chances below 1e-20."""
    if rate <= 0.0:
        return 0
    expected = entries * rate
    return math.ceil(expected + 12 * math.sqrt(expected) + 32)


def _arrivals(uniform: Tensor, rate: float, entries: int) -> Tensor:
    """Flat positions of the events of one Bernoulli(rate) process per row of ``uniform``."""
    gaps = uniform.neg_().log1p_().div_(math.log1p(-rate)).floor_().add_(1.0)  # (S, events), >= 1
    positions = gaps.cumsum(1).sub_(1.0)
    offsets = torch.arange(len(uniform), device=uniform.device, dtype=torch.float64) * entries
    return (positions + offsets[:, None])[positions < entries].long()


class Generators:
    """One reseeded generator per draw: a sequence that costs one generator's memory."""

    def __init__(self, seeds: list[int], device: torch.device) -> None:
        self._seeds = seeds
        self._generator = generators.on(device)

    def __iter__(self) -> "Generators":
        self._remaining = iter(self._seeds)
        return self

    def __next__(self) -> torch.Generator:
        return self._generator.manual_seed(next(self._remaining))
