"""`predict`: a predictive distribution from any network, and `sites`: where its noise enters."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, SupportsIndex, cast, final

import torch
from torch import Tensor, nn

from dubio.draws.absence import NoSitesError
from dubio.draws.broken import Broken
from dubio.draws.prepared import Prepared
from dubio.draws.source import NetworkDraws, uncompiled
from dubio.likelihoods import Likelihood, Point
from dubio.noise import inputs
from dubio.noise.gates import complaint, find_gates, watch
from dubio.noise.inputs import Inputs, Network, Select
from dubio.noise.modes import sampling_mode
from dubio.noise.noise import Noise, check_batch_axis
from dubio.noise.protocols import RandomNumbers
from dubio.noise.run import BatchAxes, no_gradients
from dubio.noise.seeds import Seed, as_generator
from dubio.noise.sites import Site, Sites, Where, chooser
from dubio.predictive.mixture import mixture
from dubio.predictive.predictive import Predictive, StoredDraws


def predict(
    model: Network | Sequence[Network],
    x: Inputs | Iterable[Any],
    *,
    draws: int = 100,
    likelihood: Likelihood | Sequence[Likelihood] | None = None,
    shared: bool = False,
    generator: Seed = None,
    chunk: int | None = None,
    where: Where[Site] = None,
    select: Select = None,
    keep_draws: bool = True,
    batch_axis: BatchAxes | None = None,
    gradients: bool = False,
) -> Predictive:
    """Return the predictive distribution of a network with noise in it, such as dropout.

    Gal & Ghahramani 2016, eqs. 10–13.

    Every dropout of the network is sampled, whatever mode the network is in; the network is not
    changed. The part before the first noise runs once; the rest runs for many draws at a time.

    Args:
        model: Any network, unmodified, or a function that calls networks. Or an ensemble: a list of
            them, with or without noise, with equal weights.
        x: A batch: a tensor, a tuple of arguments, or a dict of named arguments; rows come first.
            Or a `DataLoader` (or any iterable) of batches, where a pair is taken as (inputs,
            targets). Batches of a loader are moved to the network's device; a single batch must be
            there.
        draws: Number of stochastic passes (T in the paper). In an ensemble, per member; members
            without noise run once, and their output counts as much as all draws of another member.
        likelihood: The distribution of targets given the outputs, see `dubio.likelihoods`. Without
            one the outputs are the targets, and only their spread is known. In an ensemble one for
            all, or a list with one for each.
        shared: One mask per draw for all rows, so that every draw is one function of x, instead of
            one mask per row. Faster, and the same seed gives the same functions on any batch; but
            the Monte Carlo error is then common to all rows, and averages over the batch converge
            more slowly in the number of draws.
        generator: Source of the seed. The same seed gives the same draws for any ``chunk``. An int
            n means ``torch.Generator().manual_seed(n)``: the same draws in every call.
        chunk: Number of draws to compute at a time; by default as many as fit a memory budget.
        where: Which sites are noisy: a glob pattern for names, such as ``"head.*"``, a class of
            modules, a predicate on `Site`, or a list of patterns and classes.
        select: Which part of the network's output to use: a key or attribute, an index, or a
            function of the output.
        keep_draws: Whether to keep all draws. If not, mean, variances, entropies and votes are
            accumulated, memory does not grow with ``draws``, and `Predictive.log_prob` runs the
            network again under the same noise.
        batch_axis: With ``shared``, the batch axis at sites where it cannot be found, by patterns
            for their names; None for no batch axis. An error says where it is needed. If the axis
            is longer than the batch, the entries of one row are adjacent.
        gradients: Whether the draws keep their graph, for gradients by the inputs and by the
            parameters of the network. The draws are the same. The network then runs once for each
            draw, whatever ``chunk`` is, and all graphs are kept. Parameters of a likelihood get no
            gradient.

    Returns:
        The predictive distribution of every row.

    Raises:
        NoSitesError: If no noise enters the output of a single network.

    Warns:
        RuntimeWarning: If outputs of some rows are NaN or infinite; these rows have no valid
            prediction.
        UserWarning: If an ensemble has a member twice.
    """

    def predictor(network: Network, own: Likelihood | None) -> Predictor:
        return Predictor(
            network,
            draws=draws,
            likelihood=own,
            shared=shared,
            where=where,
            select=select,
            chunk=chunk,
            batch_axis=batch_axis,
        )

    if not isinstance(model, Sequence) and type(model) is not nn.ModuleList:
        predictive = predictor(model, cast(Likelihood | None, likelihood)).once(
            x, generator, keep_draws=keep_draws, gradients=gradients
        )
        return _with_gradients(predictive) if gradients else predictive
    members = _members(cast(Sequence[Network], model))
    if not keep_draws:
        raise ValueError(
            "keep_draws: expected True with an ensemble, got False; call predict for each member"
        )
    predictors = list(map(predictor, members, _of_members(likelihood, len(members))))
    if inputs.is_loader(x):
        x = [(batch,) for batch in inputs.batches(x)]  # the same rows for all
    generator = as_generator(generator)
    with torch.set_grad_enabled(gradients or torch.is_grad_enabled()):
        predictive = mixture(
            [each.once_or_plain(x, generator, gradients=gradients) for each in predictors]
        )
    return _with_gradients(predictive) if gradients else predictive


def _check_gradients(gradients: bool, keep_draws: bool) -> None:
    if not isinstance(gradients, bool):
        raise TypeError(f"gradients: expected True or False, got {gradients!r}")
    if gradients and not keep_draws:
        raise ValueError(
            "gradients: expected keep_draws=True with gradients, got False; the graph keeps all "
            "draws"
        )
    if gradients and torch.is_inference_mode_enabled():
        raise RuntimeError(
            "gradients: expected a call outside of torch.inference_mode, got one inside, where "
            "there are none; leave it, or leave gradients out"
        )


def _with_gradients(predictive: Predictive) -> Predictive:
    if not predictive.draws.requires_grad:
        raise ValueError(
            "gradients: expected parameters or inputs that require gradients, got none that the "
            "output depends on; call x.requires_grad_() first, or leave gradients out"
        )
    return predictive


def _members(networks: Sequence[Network]) -> list[Network]:
    """Return the members of an ensemble, if it is one."""
    members = list(networks) if not isinstance(networks, str) else []
    if not members:
        raise ValueError(
            f"model: expected at least one network, got {networks!r}; pass [net_1, net_2, …]"
        )
    first: dict[int, int] = {}
    for number, member in enumerate(members):
        if id(member) in first:
            warnings.warn(
                f"model: expected different networks, got one twice, as members "
                f"{first[id(member)]} and {number}; it counts twice. Build each anew, as "
                f"[make() for _ in range(5)], since [make()] * 5 holds one network.",
                stacklevel=3,
            )
            break
        first[id(member)] = number
    return members


def _of_members(
    likelihood: Likelihood | Sequence[Likelihood] | None, count: int
) -> Sequence[Likelihood | None]:
    if not isinstance(likelihood, Sequence):
        return [likelihood] * count
    if len(likelihood) != count:
        raise ValueError(
            f"likelihood: expected one, or one for each of {count} members, got "
            f"{len(likelihood)}; pass [elbo.likelihood for elbo in elbos]"
        )
    return likelihood


@final
class Predictor:
    """`predict`, prepared once and called often: the same draws from the same seed, but faster.

    The first call for inputs of some form (shapes, types, structure) records what the network does;
    further calls run torch operations without the network's code. A few forms are remembered.
    Several threads may call one predictor::

        predictor = dubio.Predictor(network, draws=50)
        predictive = predictor(x)

    Changes of the network are noticed: new numbers in parameters and buffers always; other changes
    by a check before each call. It covers all modules (parameters, buffers, submodules, hooks,
    attributes), the lists, dicts and objects of Python classes that they hold, and the closures and
    globals of their functions and methods. Other changes are not noticed: files, clocks, the
    environment, globals of libraries. If an attribute cannot be checked, such as a numpy array, or
    if the network reads numbers that depend on the inputs or changes itself, it runs in every call,
    as in `predict`. Hooks run when the network does.

    Args:
        model: Any network, unmodified, or a function that calls networks.
        draws: Number of stochastic passes.
        likelihood: The distribution of targets given the outputs, see `dubio.likelihoods`.
        shared: One mask per draw for all rows, instead of one mask per row.
        where: Which sites are noisy, as for `predict`.
        select: Which part of the network's output to use, as for `predict`.
        chunk: Number of draws to compute at a time; by default as many as fit a memory budget.
        batch_axis: The batch axis at some sites, as for `predict`.
    """

    def __init__(
        self,
        model: Network,
        *,
        draws: int = 100,
        likelihood: Likelihood | None = None,
        shared: bool = False,
        where: Where[Site] = None,
        select: Select = None,
        chunk: int | None = None,
        batch_axis: BatchAxes | None = None,
    ) -> None:
        Noise(draws, shared=shared, generator=torch.Generator())  # complains if it must
        if likelihood is None:
            likelihood = Point()
        elif not isinstance(likelihood, Likelihood):
            raise TypeError(
                f"likelihood: expected an instance from dubio.likelihoods such as Categorical(), "
                f"got {likelihood!r}"
            )
        if chunk is not None:
            if isinstance(chunk, bool) or not isinstance(chunk, SupportsIndex) or index(chunk) < 1:
                raise ValueError(f"chunk: expected a positive int or None, got {chunk!r}")
            chunk = index(chunk)
        if not callable(model):
            raise TypeError(
                f"model: expected an nn.Module or a function, got {type(model).__name__}"
            )
        self._model = uncompiled(model)
        self._draws = draws
        self._likelihood = likelihood
        self._shared = shared
        self._where = where
        self._select = select
        self._chunk = chunk
        self._batch_axis = check_batch_axis(batch_axis)
        self._prepared = Prepared(self._model, chooser(where), select, self._batch_axis)

    def __call__(
        self,
        x: Inputs | Iterable[Any],
        generator: Seed = None,
        *,
        noise: Mapping[str, Tensor] | None = None,
        gradients: bool = False,
    ) -> Predictive:
        """Return the predictive distribution of every row.

        Args:
            x: A batch, or an iterable of batches, as for `predict`.
            generator: Source of the seed, or an int, as for `predict`.
            noise: The noise itself in place of a seed, as `Predictor.noise` gives it.
            gradients: Whether gradients of the draws can be asked, as for `predict`; but all draws
                are one pass of what was recorded. The first of a form are compared with those of
                plain passes, and where they differ, as with a derivative that a network declares
                itself, the network runs once for each draw.
        """
        _check_gradients(gradients, keep_draws=True)
        if inputs.is_loader(x):
            if noise is not None:
                raise TypeError(
                    "noise: expected None with an iterable of batches, got noise; call the "
                    "predictor with one batch after the other"
                )
            predictive = self.once(x, generator, gradients=gradients)
            return _with_gradients(predictive) if gradients else predictive
        batch = cast(Inputs, x)
        if noise is not None and generator is not None:
            raise ValueError("noise: expected a generator or noise, got both; leave one out")
        numbers = self._numbers(generator if noise is None else torch.Generator())
        if noise is not None:
            numbers = self._prepared.given(batch, noise, numbers, self._chunk)
        if gradients:
            found = self._prepared.differentiable(batch, numbers)
            self._likelihood.check(found)
        else:
            chunks, _ = self._prepared.chunks(batch, numbers, self._chunk)
            first = next(chunks)
            self._likelihood.check(first)
            found = first if len(first) == len(numbers.indices) else torch.cat([first, *chunks])
        broken = Broken(self._likelihood)
        broken.see(found)
        broken.warn(found.shape[1], calls=2)
        predictive = Predictive(self._likelihood, StoredDraws(found))
        return _with_gradients(predictive) if gradients else predictive

    def noise(self, x: Inputs, generator: Seed = None) -> dict[str, Tensor]:  # each (S, …)
        """Return the noise of a call by the names of the sites: tensors with the draws first.

        For dropouts these are zeros and ones; for dubio's own layers and registered modules the
        numbers that they ask for. Further noises of one site have names such as ``"head[1]"``.
        """
        return self._prepared.noise(x, self._numbers(generator), self._chunk)[0]

    def _numbers(self, generator: Seed) -> RandomNumbers:
        return Noise(self._draws, shared=self._shared, generator=generator).numbers

    def once(
        self,
        x: Inputs | Iterable[Any],
        generator: Seed = None,
        *,
        keep_draws: bool = True,
        gradients: bool = False,
    ) -> Predictive:
        """Predict without recording anything for further calls."""
        _check_gradients(gradients, keep_draws)
        numbers = self._numbers(generator)
        check, broken = self._likelihood.check, Broken(self._likelihood)
        source = NetworkDraws(
            self._model,
            x,
            numbers,
            check,
            self._chunk,
            self._where,
            self._select,
            self._batch_axis,
            broken,
        )
        if gradients:
            predictive = Predictive(self._likelihood, StoredDraws(source.differentiable()))
        elif keep_draws:
            predictive = Predictive(self._likelihood, StoredDraws(source.collect()))
        else:
            predictive = Predictive(self._likelihood, source)
            _ = predictive.summary  # the one pass over all draws
        broken.warn(len(predictive), calls=3)
        return predictive

    def once_or_plain(
        self, x: Inputs | Iterable[Any], generator: torch.Generator | None, *, gradients: bool
    ) -> Predictive:
        """Predict once; for a network without noise, return its eval output as one draw."""
        try:
            return self.once(x, generator, gradients=gradients)
        except NoSitesError:
            if self._where is not None and sites(self._model, x):
                raise
        outputs = []
        for batch in inputs.batches(x, inputs.home_of(self._model)):
            inputs.check(self._model, batch)
            roots = inputs.networks(self._model)
            with no_gradients(), torch.set_grad_enabled(gradients), sampling_mode(roots, ()):
                outputs.append(inputs.choose(inputs.call(self._model, batch), self._select))
        found = torch.cat(outputs)[None]  # (1, B, …)
        self._likelihood.check(found)
        broken = Broken(self._likelihood)
        broken.see(found)
        broken.warn(found.shape[1], calls=3)
        return Predictive(self._likelihood, StoredDraws(found))


def sites(model: Network, x: Inputs | Iterable[Any]) -> Sites:
    """List every place where noise enters a network on this batch; prints as a table.

    If there are several batches, the first is used; the network is not changed. Noise that
    `predict` cannot reach is not listed, and there is a warning.
    """
    model = uncompiled(model)
    batch = next(inputs.batches(x, inputs.home_of(model)))
    inputs.check(model, batch)
    inputs.count_rows(batch)  # complains if there are none
    roots = inputs.networks(model)
    gates = find_gates(model, roots, batch, whole=True)
    if gates.closed:
        warnings.warn(complaint(gates.closed), stacklevel=2)
    return watch(lambda: inputs.call(model, batch), roots, gates, trace=False).sites
