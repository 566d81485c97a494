"""Perturbations: the effect of noise at a site, as functions of random numbers and a tensor.

A perturbation is a value. Called with the numbers of S draws it returns the perturbed tensor of
all S draws at once, whether its input is the same for every draw or already differs among them.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dubio.native.dropping import drop
from dubio.native.stream import usable
from dubio.native.weights import readable, spread
from dubio.noise.coordinates import uniform_by_coordinates
from dubio.noise.layout import Layout
from dubio.noise.protocols import RandomNumbers
from dubio.noise.vectorised import is_followed, is_vectorised

# Fixed point of SELU's negative saturation, -lambda * alpha (Klambauer et al. 2017).
_ALPHA_PRIME = -1.7580993408473766
_ZERO = torch.zeros(())


@dataclass(frozen=True)
class Dropout:
    """Keep an entry with probability ``keep``, else replace it.

    With mask z ~ Bernoulli(keep):  z·(scale·x + shift) + (1 − z)·fill.

    Plain dropout has scale = 1/keep and shift = fill = 0 (Gal & Ghahramani 2016, eq. 7, with the
    usual inverse scaling); `alpha_dropout` makes the values that preserve mean and variance of SELU
    units.
    """

    site: int
    keep: float
    layout: Layout
    scale: float
    shift: float = 0.0
    fill: float = 0.0

    @property
    def is_plain(self) -> bool:
        """Whether it multiplies entries, each by a number of its own place in the noise."""
        layout = self.layout
        return not (self.shift or self.fill or layout.grows or layout.index is not None)

    def mask(self, numbers: RandomNumbers, x: Tensor) -> Tensor:  # (S, *layout)
        """Return the zeros and ones of every draw, in the dtype of x."""
        if not self.layout.grows:
            return numbers.bernoulli((self.site,), self.keep, self.layout.shape, x)
        uniform = uniform_by_coordinates(numbers.seeds(self.site), self.layout.shape, x)
        return (uniform < self.keep).to(x.dtype)

    def __call__(self, numbers: RandomNumbers, x: Tensor) -> Tensor:
        """Return the perturbed tensor of every draw."""
        stream = numbers.stream((self.site,)) if self.is_plain and usable(x) else None
        if stream is not None and not is_followed(x):
            apart = x.shape == (stream.draws, *self.layout.shape)
            if apart or x.shape == self.layout.shape:
                return drop(stream, self.keep, self.scale, x, apart=apart)
        mask = self.mask(numbers, x)
        if self.layout.index is not None:
            mask = self.layout.spread(mask)
        if self.shift or self.fill:
            return mask.mul(x * self.scale + (self.shift - self.fill)).add_(self.fill)
        with_gradients = torch.is_grad_enabled() and x.requires_grad
        followed = is_vectorised(mask) or is_followed(x) or torch.compiler.is_exporting()
        if with_gradients or followed:
            return x * (mask * self.scale)
        fits = mask.shape == x.shape or mask.shape[1:] == x.shape
        zero = _ZERO if x.dtype == torch.float32 and x.is_cpu else x.new_zeros(())
        return torch.addcmul(zero, x, mask, value=self.scale, out=mask if fits else None)


def plain_dropout(site: int, rate: float, layout: Layout) -> Dropout:
    """Dropout with inverse scaling; a rate of 1 gives zeros."""
    if isinstance(rate, Tensor):  # those of many networks
        scale = (1.0 - rate).reciprocal().masked_fill(rate >= 1.0, 0.0)
        return Dropout(site, 1.0 - rate, layout, scale)
    return Dropout(site, 1.0 - rate, layout, 0.0 if rate >= 1.0 else 1.0 / (1.0 - rate))


def alpha_dropout(site: int, rate: float, layout: Layout) -> Dropout:
    """Alpha dropout (Klambauer et al. 2017): dropped units saturate; mean and variance stay."""
    if rate >= 1.0:
        return Dropout(site, 0.0, layout, 0.0)
    scale = ((1.0 - rate) * (1.0 + rate * _ALPHA_PRIME**2)) ** -0.5
    shift = -scale * rate * _ALPHA_PRIME
    return Dropout(site, 1.0 - rate, layout, scale, shift, scale * _ALPHA_PRIME + shift)


@dataclass(frozen=True)
class Draw:
    """Noise by itself, for a user's own noise module; ``x`` only gives dtype and device."""

    site: int
    call: int
    distribution: Literal["bernoulli", "uniform", "normal"]
    layout: Layout
    keep: float = 0.5

    def __call__(self, numbers: RandomNumbers, x: Tensor) -> Tensor:
        """Return the noise of every draw."""
        place = (self.site, self.call)
        if self.layout.grows:
            return self.layout.spread(self._by_coordinates(numbers.seeds(*place), x))
        match self.distribution:
            case "bernoulli":
                noise = numbers.bernoulli(place, self.keep, self.layout.shape, x)
            case "uniform":
                noise = numbers.uniform(place, self.layout.shape, x)
            case "normal":
                noise = numbers.normal(place, self.layout.shape, x)
        return self.layout.spread(noise)

    def _by_coordinates(self, seeds: list[int], x: Tensor) -> Tensor:  # (S, *layout)
        uniform = uniform_by_coordinates(seeds, self.layout.shape, x)
        match self.distribution:
            case "bernoulli":
                return (uniform < self.keep).to(x.dtype)
            case "uniform":
                return uniform.to(x.dtype)
            case "normal":
                normal: Tensor = torch.special.ndtri(uniform.clamp(min=2.0**-54))
                return normal.to(x.dtype)


@dataclass(frozen=True, eq=False)
class Spread:
    """Gaussian numbers μ + σε: weights of a draw.

    ``x`` holds σ of all numbers of the noise, in a row.

    Attributes:
        site: The site.
        call: Which of its noises.
        start: Where in that row these numbers begin.
        mean: μ: a parameter, whose values at the time count.
    """

    site: int
    call: int
    start: int
    mean: Tensor

    @property
    def layout(self) -> Layout:
        """The shape of μ."""
        return Layout(self.mean.shape)

    def __call__(self, numbers: RandomNumbers, x: Tensor) -> Tensor:  # (weights,) -> (S, …)
        """Return the numbers of every draw."""
        place, mean = (self.site, self.call), self.mean
        learning = torch.is_grad_enabled() and (x.requires_grad or mean.requires_grad)
        simple = not learning and readable(x) and readable(mean) and not is_followed(x)
        stream = numbers.stream(place) if simple else None
        if stream is not None:
            return spread(stream, self.start, mean, x)
        part = slice(self.start, self.start + mean.numel())
        own = numbers.normal(place, x.shape, x)[:, part]
        return torch.addcmul(mean, x[part].view(mean.shape), own.reshape(-1, *mean.shape))
