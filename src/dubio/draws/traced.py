"""A pass that is written down while it runs.

One ordinary pass over the network with the noise of one draw records a tape: from the first
perturbation on, every operation on values that depend on the noise lands on the tape, whoever calls
it (modules, functions, custom autograd functions, scripted code). The network sees nothing of it:
its tensors are plain ones, known to the recorder by what they are, and it computes what it would
compute without. Operations that do not depend on the noise leave no trace, and what they give
enters the tape as constants; unless the tape is to serve for other inputs too, see
`dubio.draws.trunk`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dubio.draws.arguments import Arguments, Operand, Slot
from dubio.draws.functional import counterpart, functional
from dubio.draws.sampled import Geometry, Reserved, Sampled, TooManyWritesError, address
from dubio.draws.tape import Tape
from dubio.draws.traits import traits_of, written
from dubio.draws.trunk import LOOKS, MAKERS, MEMORY, Trunk
from dubio.noise.protocols import Perturbation, RandomNumbers


class UntraceableError(Exception):
    """The network does something that a tape cannot repeat for other draws."""


class UnshareableError(ValueError):
    """The network draws noise that the rows of a batch cannot share."""


class InsideTransformError(NotImplementedError):
    """Noise enters inside of `torch.vmap`, where the rows of the batch cannot be told apart."""


# Functions that are recorded whole: taken apart they would be slower to repeat.
WHOLE = frozenset(
    {
        torch.nn.functional.linear,
        torch.nn.functional.scaled_dot_product_attention,
        torch.lstm,
        torch.gru,
        torch.rnn_tanh,
        torch.rnn_relu,
        torch.lstm_cell,
        torch.gru_cell,
        torch.rnn_tanh_cell,
        torch.rnn_relu_cell,
    }
)
_LIFT = torch.ops.aten.lift_fresh.default  # makes a tensor of Python numbers
_USUAL = (Tensor, torch.nn.Parameter)
_SET_DATA = Tensor.data.__set__  # type: ignore[attr-defined]


class Recorder(TorchDispatchMode):
    """Carries functions out for one draw and records those that depend on the noise.

    As a context it sees every operation of this thread.

    Args:
        tape: What it records.
        trunk: Records what does not depend on the noise, if that is wanted.
        shared: Whether all rows of a batch share the noise.
        own: Tells whether the network owns a tensor; all others are copied before they are used.
    """

    def __init__(
        self,
        tape: Tape,
        trunk: Trunk | None = None,
        *,
        shared: bool = False,
        own: Callable[[Tensor], bool] = lambda _: True,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tape = tape
        self.trunk = trunk
        self.met_unfed_randomness = False
        self._calling = False  # whether a torch function is at work, whose arguments were looked at
        self._shared = shared
        self._own = own
        self._sampled = Sampled(tape, self._snapshot)
        self._made = Reserved()  # memory that came up in this pass
        self._held: dict[int | None, Tensor] = {}  # memory that the tape refers to
        self._exposed: dict[int | None, Tensor] = {}  # memory that Python may write into unseen

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler to keep it out of here

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Look at an operation and carry it out."""
        kwargs = kwargs or {}
        if traits_of(func).random and kwargs.get("generator") is None:
            self._refuse_unfed_randomness(str(func))
        return self._carry_on(func, args, kwargs)

    def _carry_on(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if self._sampled:
            for x in _tensors((*args, *kwargs.values())):
                if self.slot(x) is not None:
                    return self._record(function, args, kwargs)
        return self._plain(function, args, kwargs)

    def slot(self, x: Tensor) -> Slot | None:
        """Return the slot of a tensor; None if it does not depend on the noise."""
        try:
            return self._sampled.slot(x)
        except TooManyWritesError:
            self._refuse("memory is read by one name and written by another")

    def perturb(self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor) -> Tensor:
        """Apply the noise of the one draw; the result depends on it."""
        self._check_perturbed(x)
        with torch._C._DisableTorchDispatch():
            value = perturbation(numbers, x)[0]
        self._sampled.result(value, self.tape.perturb(perturbation, self._operand(x), value))
        return value

    def perturb_in_place(
        self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor
    ) -> Tensor:
        """Apply the noise of the one draw to x itself."""
        self._check_perturbed(x)
        self._check_targets([x], "dropout")
        operand = self._operand(x, overwritten=True)
        with torch._C._DisableTorchDispatch():
            value = perturbation(numbers, x)[0]
            x.copy_(value)
        self._sampled.write(x, self.tape.perturb(perturbation, operand, value))
        return x

    def _check_perturbed(self, x: Tensor) -> None:
        transforms = torch._C._functorch.get_interpreter_stack() or []
        if any(level.key() == torch._C._functorch.TransformType.Vmap for level in transforms):
            self.tape.obstacle = "noise enters inside of torch.vmap"
            raise InsideTransformError(
                f"expected dropout on the whole batch, got it inside of torch.vmap, on a part of "
                f"shape {tuple(x.shape)}, where rows of the batch cannot be told apart; call the "
                f"module on the batch, outside of torch.vmap"
            )
        if x.layout != torch.strided or x.is_nested:
            self._refuse(f"dropout of a {x.layout} tensor")
        if torch.is_grad_enabled() or transforms:
            self._refuse("the network takes gradients itself")

    def own_randomness(self, name: str) -> None:
        """Refuse random numbers that a tape would repeat for every draw."""
        if self._shared:
            raise UnshareableError(
                f"shared=True: the network calls {name} itself, and such noise cannot be shared by "
                f"the rows of a batch; use shared=False, or dubio.register the module"
            )
        self.tape.obstacle = f"the network calls {name} itself"

    def _refuse_unfed_randomness(self, operation: str) -> None:
        """Give the recording up before torch's generator is used."""
        self.own_randomness(operation)
        self.met_unfed_randomness = True
        raise UntraceableError(operation)

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a torch function; what depends on the noise is recorded on the way."""
        if function in WHOLE and self._is_whole(args, kwargs):
            return self._carry_on(function, args, kwargs)
        name = getattr(function, "__name__", "")
        if name in LOOKS and args:
            self._look(args[0], name)
        elif name in MAKERS:
            for thing in (*args, *kwargs.values()):
                if isinstance(thing, list | tuple):  # torch reads the numbers in it
                    for leaf in tree_leaves(thing):
                        self._look(leaf)
        elif function is _SET_DATA:
            self._give_other_data(args)
        self._calling = True
        try:
            return function(*args, **kwargs)
        finally:
            self._calling = False

    def _look(self, x: Any, name: str = "") -> None:
        """Python sees the values of a tensor, if it is one."""
        if not isinstance(x, Tensor):
            return
        if self._sampled.shares(x):
            self.tape.obstacle = "Python reads a sampled value"
        elif self.trunk is not None:
            self.trunk.look(x)
        if name in MEMORY:
            self._exposed[address(x)] = x
            if address(x) in self._held:
                self.tape.obstacle = "Python may write over a tensor after it was used"

    def _give_other_data(self, tensors: Iterable[Tensor]) -> None:
        """Note that a tensor gets the memory of another one."""
        for x in tensors:
            if self._sampled.shares(x) or address(x) in self._held:
                self.tape.obstacle = "the data of a tensor is replaced by that of another"
            elif self.trunk is not None:
                self.tape.doubt = "the data of a tensor is replaced by that of another"

    @staticmethod
    def _is_whole(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether no other part of torch takes the function apart."""
        if torch._C._functorch.peek_interpreter_stack() is not None:
            return False
        for x in _tensors((*args, *kwargs.values())):
            if type(x) not in _USUAL or torch.is_autocast_enabled(x.device.type):
                return False
        return True

    def _plain(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Carry out an operation that does not depend on the noise."""
        traits, trunk = traits_of(func), self.trunk
        targets = _tensors(written(traits, args, kwargs)) if traits.written else []
        for x in targets:
            if address(x) in self._held:
                self.tape.obstacle = (
                    "a tensor of the deterministic part is overwritten after its use"
                )
        if trunk is None:
            out = self._carry_out(func, args, kwargs)
        else:
            out = self._onto_the_trunk(trunk, func, args, kwargs, targets)
        given = set(map(address, _tensors((*args, *kwargs.values()))))
        with torch._C.DisableTorchFunction():
            for x in _tensors((out,)):
                if address(x) not in given or func is _LIFT:  # a view of something else is not new
                    self._made.add(x)
        for x in targets:
            if self._sampled.shares(x):
                self._sampled.write(x, None)
        return out

    def _onto_the_trunk(
        self,
        trunk: Trunk,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        targets: list[Tensor],
    ) -> Any:
        traits = traits_of(func)
        if traits.reads:
            trunk.look(args[0])
            return self._carry_out(func, args, kwargs)
        if traits.shapes:
            trunk.shaped_by_values(func)
        if traits.written:
            trunk.write(targets)
        if func is _LIFT:
            made: Tensor = func(*args, **kwargs)
            trunk.made(made.clone(), made, seen=self._calling)
            return made
        arguments = _arguments(args, kwargs, trunk.operand)
        out = self._carry_out(func, args, kwargs)
        trunk.record(func, arguments, _tensors((out,)))
        return out

    def _record(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Carry an operation out for the one draw and put it on the tape."""
        if torch.is_grad_enabled():
            self._refuse("the network takes gradients itself")
        traits = traits_of(function)
        if traits.reads or (traits.shapes and self._shaped_by_values(function, args)):
            self.tape.obstacle = f"shapes or branches depend on a sampled value ({function})"
        if traits.written:
            return self._record_write(function, args, kwargs)
        if function is torch.ops.aten.as_strided.default:  # a part of the memory, not of the tensor
            return self._carry_out(function, args, kwargs)
        arguments = _arguments(args, kwargs, self._operand)
        out = self._carry_out(function, args, kwargs)
        results = _tensors((out,))
        if not results:
            self.tape.obstacle = f"Python reads a sampled value through {function}"
            return out
        self._check_strided(results)
        for x, slot in zip(results, self.tape.call(function, arguments, results), strict=True):
            self._sampled.result(x, slot)
        return out

    def _record_write(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Record an operation that writes into tensors: on the tape it makes new ones."""
        targets = _tensors(written(traits_of(function), args, kwargs))
        self._check_targets(targets, str(function))

        def refer(x: Tensor) -> Operand:
            return self._operand(x, overwritten=any(x is target for target in targets))

        arguments = _arguments(args, kwargs, refer)
        before = list(map(Geometry.of, targets))
        same = counterpart(function, tuple(args), dict(kwargs))
        pointwise = torch.Tag.pointwise in getattr(same, "tags", ())
        out = self._carry_out(function, args, kwargs)
        if list(map(Geometry.of, targets)) != before:
            self._refuse(f"{function} changes the shape of a tensor in place")
        others = [x for x in _tensors((out,)) if not any(x is target for target in targets)]
        self._check_strided(others)
        slots = self.tape.call(
            same or functional(function),
            arguments,
            [*targets, *others],
            function if pointwise else None,
        )
        for x, slot in zip(targets, slots, strict=False):
            self._sampled.write(x, slot)
        for x, slot in zip(others, slots[len(targets) :], strict=True):
            self._sampled.result(x, slot)
        return out

    def _check_targets(self, targets: Iterable[Tensor], function: str) -> None:
        for x in targets:
            if self._sampled.shares(x):
                continue
            if address(x) not in self._made:
                self._refuse(f"{function} writes a sampled value into a tensor made elsewhere")
            if address(x) in self._held or address(x) in self._exposed:
                self._refuse(f"{function} writes a sampled value into a tensor after its use")

    def _check_strided(self, results: Iterable[Tensor]) -> None:
        if any(address(x) is None for x in results):
            self._refuse("a sampled value is in a tensor without strides")

    def _carry_out(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function for the one draw, out of sight."""
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            return function(*args, **kwargs)

    def _operand(self, x: Tensor, *, overwritten: bool = False) -> Operand:
        """Return how the tape refers to a tensor: by its slot, else by the tensor."""
        slot = self.slot(x)
        if slot is not None:
            return slot
        return self._snapshot(x) if overwritten else self._constant(x)

    def _constant(self, x: Tensor) -> Operand:
        """Return how the tape refers to a tensor that stays as it is."""
        where = address(x)
        if where in self._exposed or self._sampled.shares(x):
            return self._snapshot(x)
        if where not in self._made and not self._own(x):
            return self._snapshot(x)
        self._held[where] = x
        return x if self.trunk is None else self.trunk.operand(x)

    def _snapshot(self, x: Tensor) -> Operand:
        """Return how the tape refers to what a tensor holds now."""
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            copy = x.detach().clone()
        operand = copy if self.trunk is None else self.trunk.operand(x)
        if not isinstance(operand, Slot):
            return copy
        assert self.trunk is not None
        self.trunk.values[operand.number] = copy
        self._held[address(x)] = x
        return operand

    def _refuse(self, obstacle: str) -> NoReturn:
        """Give the recording up, also if the network swallows the exception."""
        self.tape.obstacle = obstacle
        raise UntraceableError(obstacle)

    def _shaped_by_values(self, function: Any, args: Sequence[Any]) -> bool:
        """Return whether the shape of the result depends on sampled values."""
        if function is torch.ops.aten.index.Tensor:
            return any(
                x.dtype in (torch.bool, torch.uint8) and self.slot(x) is not None
                for x in _tensors(args[1:])
            )
        return True


def _arguments(
    args: Iterable[Any], kwargs: Mapping[str, Any], operand: Callable[[Tensor], Operand]
) -> Arguments:
    """Return how the tape refers to arguments."""

    def refer(arg: Any) -> Any:
        if isinstance(arg, Tensor):
            return operand(arg)
        if type(arg) in (list, tuple):
            return [operand(part) if isinstance(part, Tensor) else part for part in arg]
        return arg

    return Arguments(list(map(refer, args)), {name: refer(arg) for name, arg in kwargs.items()})


def _tensors(things: Iterable[Any]) -> list[Tensor]:
    """Return the tensors among things, and in lists of them."""
    found: list[Tensor] = []
    for thing in things:
        if isinstance(thing, Tensor):
            found.append(thing)
        elif isinstance(thing, list | tuple):
            found += [part for part in thing if isinstance(part, Tensor)]
    return found
