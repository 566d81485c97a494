"""`Session`: train a population batch by batch."""

import copy
from collections.abc import Sequence
from typing import Any, Self, final

import torch
from torch import Tensor, nn

from dubio.noise.float64 import placed
from dubio.objectives.elbo import ELBO
from dubio.population.arguments import (
    check_batches,
    check_data,
    check_hooks,
    check_optimizer,
    check_steps,
    counted,
    num_data_of_members,
    rates_of_members,
    seeds_of_members,
)
from dubio.population.descent import Optimizer
from dubio.population.feed import NoiseFeed
from dubio.population.given import NoiseRequests
from dubio.population.identity import identity_of
from dubio.population.learning import Learning
from dubio.population.losses import noise_of_loss
from dubio.population.outputs import MemberOutputs
from dubio.population.stack import Stack
from dubio.population.streams import MemberStream, Streams, StreamUse, seeds_of_predictions

_NUM_DATA = ":_num_data"  # the path of this setting of an ELBO
_MAY_DIFFER = ("_num_data", "step")  # of those who go on from a state
_SHAPES = 64  # of batches, whose noise is known


@final
class Session:
    """Members in training; their weights and optimizer state stay stacked from step to step.

    Made by `Population.session`. Every member has its own rows in every batch and its own random
    numbers, and becomes the same network whatever is trained beside it: that of a loop of `ELBO`
    and an optimizer. The members themselves change only when `write` is called; as a context
    manager the session writes at the end, also after an error.

    Args:
        members: Objectives of one structure.
        seeds: Seed of each member.
        number: Number of earlier fits and sessions of these members.
        learning_rate: One for all members, or one for each.
        optimizer: "adam", or "sgd" for plain gradient descent.
        weight_decay: For plain gradient descent; applies to weights, not to biases.

    Attributes:
        done: Number of steps of each member in this session.  # (M,)
        failed: Whether a loss or step of a member was not finite. Such a member keeps the weights
            from before and stops learning.  # (M,)
    """

    def __init__(
        self,
        members: Sequence[nn.Module],
        seeds: Sequence[int],
        number: int,
        learning_rate: float | Tensor | Sequence[float],
        optimizer: Optimizer = "adam",
        weight_decay: float = 0.0,
    ) -> None:
        check_optimizer(optimizer, weight_decay)
        check_hooks(members)
        check_steps(members)
        self._members = members
        self._seeds = seeds
        stack = Stack.of(members)
        self._like = next(iter(stack.learned.values())).detach()
        self._identity = {k: v for k, v in identity_of(stack).items() if k not in _MAY_DIFFER}
        self._identity["optimizer"] = optimizer
        self._identity["weight_decay"] = str(weight_decay)
        self._optimizer, self._weight_decay = optimizer, weight_decay
        self._is_elbo = isinstance(stack.skeleton, ELBO)
        elbos = [member for member in members if isinstance(member, ELBO)] if self._is_elbo else []
        self._num_data = torch.tensor([elbo.num_data for elbo in elbos])
        self._started = torch.tensor([elbo.step for elbo in elbos])
        self._changing = [_NUM_DATA] if elbos else []
        if elbos:
            stack.numbers[_NUM_DATA] = self._num_data.to(self._like)
        self._rates = placed(rates_of_members(learning_rate, len(members)), self._like.device)
        self._learning = self._learning_of(stack, self._rates)
        streams = Streams([MemberStream(seed, StreamUse.TRAINING, number) for seed in seeds])
        self._noise = NoiseFeed(streams, self._like)
        self._requests: dict[tuple[torch.Size, torch.Size], NoiseRequests] = {}  # by shapes
        self._outputs: dict[bool, MemberOutputs] = {}  # by whether rows share masks
        self.done = torch.zeros(len(members), dtype=torch.long)
        self.failed = torch.zeros(len(members), dtype=torch.bool)

    def __len__(self) -> int:
        return len(self._members)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.write()

    @property
    def learning_rate(self) -> Tensor:  # (M,)
        """The learning rate of each member; assign one for all, or one for each."""
        return self._rates.clone()

    @learning_rate.setter
    def learning_rate(self, learning_rate: float | Tensor | Sequence[float]) -> None:
        self._rates = placed(rates_of_members(learning_rate, len(self)), self._like.device)
        self._learning.descent.rate = self._rates
        self._learning.descent.halt(self.failed)

    def step(
        self,
        x: Tensor,  # (M, B, …)
        y: Tensor,  # (M, B, …)
        *,
        num_data: int | Sequence[int] | Tensor | None = None,
    ) -> Tensor:  # (M,)
        """Train every member for one step on its own rows.

        Args:
            x: Inputs: a batch for each member.
            y: Targets.
            num_data: Current number of rows of each member, one for all or one for each; it stays
                until another is given. At first that of the `ELBO`.

        Returns:
            The loss of each member before the step; NaN for members that had failed.
        """
        check_batches(("members", "rows"), len(self), x=x, y=y)
        return self.steps(x[None], y[None], num_data=num_data)[0]

    def steps(
        self,
        x: Tensor,  # (K, M, B, …)
        y: Tensor,  # (K, M, B, …)
        *,
        num_data: int | Sequence[int] | Tensor | None = None,
    ) -> Tensor:  # (K, M)
        """Run several steps: `step` for each entry of the first axis."""
        check_batches(("steps", "members", "rows"), len(self), x=x, y=y)
        check_data(self._like, x=x, y=y)
        counts = None if num_data is None else self._checked(num_data)
        x, y = x.detach().contiguous(), y.detach().contiguous()
        requests = self._requests_of(x[0], y[0])
        if counts is not None:
            self._use_num_data(counts)
        losses = [self._step(*batch, requests) for batch in zip(x, y, strict=True)]
        return torch.stack(losses)

    def outputs(
        self,
        x: Tensor,  # (B, …), or (M, B, …)
        *,
        own_rows: bool = False,
        draws: int = 100,
        shared: bool = False,
        generator: torch.Generator | None = None,
        noise_seeds: Sequence[int] | None = None,
    ) -> Tensor:  # (M, S, B, …)
        """Return the outputs of all members under noise, with the current weights.

        They are the draws of `Population.predict` after `write`.

        Args:
            x: Inputs, the same for all members.
            own_rows: Whether x holds separate rows for each member instead, (M, B, …).
            draws: Number of stochastic passes; networks without noise make one.
            shared: One mask per draw for all rows, instead of one per row.
            generator: Source of a seed, which is combined with those of the members.
            noise_seeds: Instead, a seed for each member. With `shared` the same seed gives the same
                function again, as long as the weights do not change.
        """
        if noise_seeds is not None:
            noise_seeds = seeds_of_members(noise_seeds, len(self), "noise_seeds")
        if own_rows:
            check_batches(("members", "rows"), len(self), x=x)
        check_data(self._like, x=x)
        if shared not in self._outputs:
            self._outputs[shared] = MemberOutputs(self._learning.stack, shared=shared)
        seeds = seeds_of_predictions(self._seeds, generator, noise_seeds)
        own = x if own_rows else x.expand(len(self), *x.shape)
        return self._outputs[shared](own, seeds, counted("draws", draws))

    def write(self) -> None:
        """Write weights, numbers of steps and ``num_data`` to the members."""
        self._learning.stack.write(self._members)
        for index, member in enumerate(self._members):
            if isinstance(member, ELBO):
                member.step = int(self._started[index] + self.done[index])
                member.num_data = int(self._num_data[index])

    def state_dict(self) -> dict[str, Any]:
        """Return the state, in types that ``torch.load(weights_only=True)`` accepts."""
        stack, descent = self._learning.stack, self._learning.descent
        state = {
            "identity": self._identity,
            "learned": {name: tensor.detach() for name, tensor in stack.learned.items()},
            "num_data": self._num_data,
            "started": self._started,
            "rates": self._rates,
            "descent": descent.state_dict(),
            "noise": self._noise.state_dict(),
            "done": self.done,
            "failed": self.failed,
        }
        return copy.deepcopy(state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state, bit for bit, with members of the same structure and settings.

        Args:
            state: The result of `state_dict`.
        """
        there, here = state.get("identity", {}), self._identity
        if there != here:
            name = next(n for n in (*here, *there) if here.get(n) != there.get(n))
            raise ValueError(
                f"state: expected that of members like these, got another {name}: "
                f"{there.get(name)} there and {here.get(name)} here; build the same members first"
            )
        state = copy.deepcopy(state)
        old = self._learning.stack
        stack = Stack(old.skeleton, state["learned"], old.fixed, old.numbers)
        self._learning = self._learning_of(stack, state["rates"])
        self._learning.descent.load_state_dict(state["descent"])
        self._noise.load_state_dict(state["noise"])
        self._outputs.clear()
        self._rates, self._started = state["rates"], state["started"]
        self.done, self.failed = state["done"], state["failed"]
        if isinstance(stack.skeleton, ELBO):
            self._use_num_data(state["num_data"])
            # a schedule goes on, the same for all members
            stack.skeleton.step = int(self._started[0] + self.done.max())

    def _learning_of(self, stack: Stack, rates: Tensor) -> Learning:
        return Learning(stack, rates, self._changing, self._optimizer, self._weight_decay)

    def _step(self, x: Tensor, y: Tensor, requests: NoiseRequests) -> Tensor:  # (M,)
        loss, finite = self._learning.step(x, y, self._noise.next(requests))
        self.done += ~self.failed
        if bool(self.failed.any()):
            loss = loss.masked_fill(self.failed.to(loss.device), torch.nan)
        failing = ~(finite.cpu() | self.failed)
        if bool(failing.any()):
            self.failed = self.failed | failing
            self._learning.descent.halt(failing)
        return loss

    def _requests_of(self, x: Tensor, y: Tensor) -> NoiseRequests:
        """Return which noise a batch needs."""
        shapes = (x.shape, y.shape)
        if shapes not in self._requests:
            if len(self._requests) == _SHAPES:
                self._requests.clear()
            self._requests[shapes] = noise_of_loss(self._learning.stack, x[0], y[0])
        return self._requests[shapes]

    def _checked(self, num_data: int | Sequence[int] | Tensor) -> Tensor:  # (M,)
        if not self._is_elbo:
            raise TypeError(
                f"num_data: expected members that are dubio.ELBO objectives, got "
                f"{type(self._members[0]).__name__}; leave it out"
            )
        return num_data_of_members(num_data, len(self))

    def _use_num_data(self, num_data: Tensor) -> None:
        """Divide the KL of each member by another number from now on."""
        self._num_data = num_data
        self._learning.stack.numbers[_NUM_DATA].copy_(num_data)
