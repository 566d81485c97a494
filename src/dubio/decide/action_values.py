"""From networks to the expected reward of every action, in each of some functions."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from dubio.draws.absence import NoSitesError
from dubio.likelihoods import Likelihood
from dubio.noise.modes import sampling_mode
from dubio.predict import Predictor

_MOST_PREDICTORS = 4  # of a network, for different numbers of draws


@final
class ActionValues:
    """The expected reward of every action under functions that networks give.

    A function is the mean of ``average`` draws of a network, the same for all rows and actions. A
    network without noise is one function. Members of an ensemble have equal shares.

    Args:
        nets: The members; one is no ensemble.
        actions: A, how many actions there are.
        features: What stands for an action beside the context, `(A, F)`; None if the network gives
            one reward per action.
        likelihood: How outputs give a mean reward.
        average: Draws per function.
    """

    def __init__(
        self,
        nets: Sequence[nn.Module],
        actions: int,
        features: Tensor | None,
        likelihood: Likelihood,
        average: int,
    ) -> None:
        self._nets = nets
        self._actions = actions
        self._features = features
        self._likelihood = likelihood
        self._average = average
        self._predictors: dict[tuple[int, int], Predictor] = {}
        self._noisy: list[bool] | None = None

    def inputs(self, contexts: Tensor, actions: Tensor) -> Tensor:
        """Return the network's inputs for one action of each context."""
        if self._features is None:
            return contexts
        return torch.cat([contexts, self._features[actions]], 1)  # (B, D + F)

    def __call__(
        self, contexts: Tensor, functions: int, generator: torch.Generator
    ) -> Tensor:  # (S, B, A)
        """Return the mean reward of every action.

        Args:
            contexts: `(B, ...)`.
            functions: How many functions, S; of an ensemble the next multiple of its size. Networks
                without noise have one each.
            generator: Source of the functions.
        """
        x = contexts if self._features is None else all_pairs(contexts, self._features)
        noisy = self._which_are_noisy(x)
        each = -(-functions // len(self._nets)) if any(noisy) else 1
        values = [
            self._drawn(member, x, each, generator)
            if noisy[member]
            else self._plain(member, x).expand(each, -1, -1)
            for member in range(len(self._nets))
        ]
        return (values[0] if len(values) == 1 else torch.cat(values)).detach()

    @property
    def is_one_function(self) -> bool:
        """Whether there is a single network, and it was found to have no noise."""
        return self._noisy == [False]

    def _which_are_noisy(self, x: Tensor) -> list[bool]:
        if self._noisy is None:
            self._noisy = [self._is_noisy(member, x) for member in range(len(self._nets))]
        return self._noisy

    def _is_noisy(self, member: int, x: Tensor) -> bool:
        try:
            self._predictor(member, self._average)(x, torch.Generator())
        except NoSitesError:
            return False
        return True

    def _drawn(self, member: int, x: Tensor, each: int, generator: torch.Generator) -> Tensor:
        outputs = self._predictor(member, each * self._average)(x, generator).draws
        values = self._values(outputs, len(x))
        return values if self._average == 1 else values.unflatten(0, (each, -1)).mean(1)

    def _plain(self, member: int, x: Tensor) -> Tensor:
        net = self._nets[member]
        with torch.no_grad(), sampling_mode([net], ()):
            outputs = net(x)
        return self._values(outputs[None], len(x))

    def _values(self, outputs: Tensor, rows: int) -> Tensor:  # (S, B, A)
        joint = self._features is not None
        return values_of_actions(self._likelihood.mean(outputs), rows, self._actions, joint=joint)

    def _predictor(self, member: int, draws: int) -> Predictor:
        key = member, draws
        if key not in self._predictors:
            while len(self._predictors) >= _MOST_PREDICTORS * len(self._nets):
                del self._predictors[next(iter(self._predictors))]
            self._predictors[key] = Predictor(self._nets[member], draws=draws, shared=True)
        return self._predictors[key]


def all_pairs(contexts: Tensor, features: Tensor) -> Tensor:  # (B, D), (A, F) -> (B · A, D + F)
    """Every context with the features of every action."""
    rows, (actions, width) = len(contexts), features.shape
    x = contexts.new_empty(rows, actions, contexts.shape[1] + width)
    x[..., : contexts.shape[1]] = contexts[:, None]
    x[..., contexts.shape[1] :] = features
    return x.flatten(0, 1)


def values_of_actions(means: Tensor, rows: int, actions: int, *, joint: bool) -> Tensor:
    """Return the mean reward of every action, `(S, B, A)`.

    Args:
        means: Of all outputs: `(S, B, A)`; or `(S, B · A)` or `(S, B · A, 1)` of pairs.
        rows: How many inputs the network was given.
        actions: A.
        joint: Whether the inputs were pairs of context and action.
    """
    shape = tuple(means.shape[1:])
    if not joint:
        if shape != (rows, actions):
            raise ValueError(
                f"net: expected outputs that give one reward for each of {actions} actions, got "
                f"rewards of shape {shape} for {rows} contexts; change the last layer, or pass "
                "action_features if the network takes actions"
            )
        return means
    if shape not in ((rows, 1), (rows,)):
        raise ValueError(
            f"net: expected outputs that give one reward for each of {rows} pairs of context and "
            f"action, got rewards of shape {shape}; change the last layer"
        )
    return means.reshape(len(means), -1, actions)
