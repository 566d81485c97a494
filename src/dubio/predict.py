"""`predict`: a predictive distribution from any network, and `sites`: where its noise enters."""

from collections.abc import Iterable
from operator import index
from typing import Any, SupportsIndex

import torch
from torch import nn

from dubio.draws.source import NetworkDraws, uncompiled
from dubio.likelihoods import Likelihood, Point
from dubio.noise import inputs
from dubio.noise.gates import behind_gates, watch
from dubio.noise.inputs import Inputs, Network, Select
from dubio.noise.noise import Noise
from dubio.noise.sites import Site, Sites, Where
from dubio.predictive.predictive import Predictive, StoredDraws


def predict(
    model: Network,
    x: Inputs | Iterable[Any],
    *,
    draws: int = 100,
    likelihood: Likelihood | None = None,
    shared: bool = False,
    generator: torch.Generator | None = None,
    chunk: int | None = None,
    where: Where[Site] = None,
    select: Select = None,
    keep_draws: bool = True,
) -> Predictive:
    """The predictive distribution of a network with noise in it (paper 002, eqs. 10–13).

    Every dropout of the network is sampled, in whatever mode the network is; nothing in it is
    changed. The part before the first noise runs once; the rest for many draws at a time.

    Args:
        model: Any network, as it is, or a function that calls networks.
        x: A batch: a tensor, a tuple of arguments, or a dict of named arguments; rows come first.
            Or a `DataLoader` (or any iterable) of batches, where a pair is taken for
            (inputs, targets).
        draws: Number of stochastic passes (T in the paper).
        likelihood: How outputs become a distribution of targets, see `dubio.likelihoods`. Without
            one the outputs themselves are the targets, and only their spread is known.
        shared: One mask per draw for all rows, so that every draw is one function of x, instead
            of one mask per row. Faster, and the same seed gives the same functions on any batch;
            but then the error of the Monte Carlo average is common to all rows, and averages over
            the batch converge more slowly in the number of draws.
        generator: Source of the seed. The same seed gives the same draws for any ``chunk``.
        chunk: Number of draws to compute at a time; by default as many as fit a memory budget.
        where: Which sites are noisy: a pattern for their names, such as ``"head.*"``, a class of
            modules, a predicate on `Site`, or a list of patterns and classes.
        select: Which part of the network's output is meant: a key or attribute, an index, or a
            function of the output.
        keep_draws: Whether all draws are kept. If not, mean, variances, entropies and votes are
            accumulated, memory does not grow with ``draws``, and `Predictive.log_prob` runs the
            network again under the same noise.

    Returns:
        The predictive distribution of every row.

    Raises:
        NoSitesError: If no noise enters the output.
    """
    noise = Noise(draws, shared=shared, generator=generator)
    if likelihood is None:
        likelihood = Point()
    elif not isinstance(likelihood, Likelihood):
        raise TypeError(
            f"likelihood: expected an instance from dubio.likelihoods such as Categorical(), "
            f"got {likelihood!r}."
        )
    if chunk is not None:
        if isinstance(chunk, bool) or not isinstance(chunk, SupportsIndex) or index(chunk) < 1:
            raise ValueError(f"chunk: expected a positive int or None, got {chunk!r}.")
        chunk = index(chunk)
    source = NetworkDraws(model, x, noise.numbers, likelihood.check, chunk, where, select)
    if keep_draws:
        return Predictive(likelihood, StoredDraws(source.collect()))
    predictive = Predictive(likelihood, source)
    _ = predictive.summary  # the one pass over all draws
    return predictive


def sites(model: Network, x: Inputs | Iterable[Any]) -> Sites:
    """Every place where noise enters a network on this batch; prints as a table.

    One pass is made, over the first batch if there are several; nothing in the network is changed.
    """
    model = uncompiled(model)
    batch = next(inputs.batches(x))
    inputs.check(model, batch)
    roots = inputs.networks(model)

    def network() -> object:
        return inputs.call(model, batch)

    def attempt(raised: set[nn.Module]) -> tuple[Sites, Sites]:
        seen = watch(network, roots, raised).sites
        return seen, seen

    return behind_gates(attempt, network, roots)[0]
