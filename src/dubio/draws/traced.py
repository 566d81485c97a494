"""A tensor that writes down what is done to it.

One ordinary pass over the network with the noise of one draw records a tape: from the first
perturbation on, values are `Traced`, and every operation on them lands on the tape, whoever calls
it (modules, functions, custom autograd functions, scripted code). Operations before the first
perturbation see plain tensors. They leave no trace, and what they give enters the tape as
constants; unless the tape is to serve for other inputs too, see `dubio.draws.trunk`.
"""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dubio.draws.arguments import Arguments, Slot
from dubio.draws.tape import Tape
from dubio.draws.traits import traits_of, written
from dubio.draws.trunk import LOOKS, MAKERS, Trunk
from dubio.noise.protocols import Perturbation, RandomNumbers


class UntraceableError(Exception):
    """The network does something that a tape cannot repeat for other draws."""


class UnshareableError(ValueError):
    """The network draws noise that the rows of a batch cannot share."""


class Traced(Tensor):
    """Stands for the value of one draw, and for a slot of the tape for all draws."""

    value: Tensor
    slot: Slot
    recorder: "Recorder"

    @staticmethod
    def __new__(cls, value: Tensor, slot: Slot, recorder: "Recorder") -> "Traced":
        """Wrap the value of the draw that is being recorded."""
        traced: Traced = torch.Tensor._make_wrapper_subclass(
            cls,
            value.shape,
            strides=value.stride(),
            storage_offset=value.storage_offset(),
            dtype=value.dtype,
            device=value.device,
            layout=value.layout,
        )
        traced.value = value
        traced.slot = slot
        traced.recorder = recorder
        return traced

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Carry an operation out where the recorder does not see it: elsewhere, or later."""
        leaves = tree_leaves((args, kwargs))
        recorder = next(leaf.recorder for leaf in leaves if isinstance(leaf, Traced))
        return recorder.record(func, args, kwargs or {})

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"Traced({self.value!r})"


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

_METADATA = frozenset({"__get__", "dim", "size", "stride", "numel", "is_floating_point", "__len__"})
_REFLECTED = {
    f"__i{name}__": f"__{name}__" for name in ("add", "sub", "mul", "truediv", "and", "or")
}


class Recorder(TorchDispatchMode):
    """Carries functions out for one draw and records those that depend on the noise.

    As a context it sees every operation of this thread.

    Args:
        tape: What it records.
        trunk: Records what does not depend on the noise, if that is wanted.
        shared: Whether all rows of a batch share the noise.
    """

    def __init__(self, tape: Tape, trunk: Trunk | None = None, *, shared: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tape = tape
        self.trunk = trunk
        self.met_unfed_randomness = False
        self._calling = False  # whether a torch function is at work, whose arguments were looked at
        self._shared = shared
        self._open = True
        self._overwritten: list[Tensor] = []
        self._traced: list[weakref.ref[Traced]] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler to keep it out of here

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Look at an operation and carry it out."""
        kwargs = kwargs or {}
        traits = traits_of(func)
        if traits.random and kwargs.get("generator") is None:
            self._refuse_unfed_randomness(str(func))
        if Traced in types:
            return self.record(func, args, kwargs)
        return self.plain(func, args, kwargs)

    def plain(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Carry out an operation that does not depend on the noise."""
        if self.trunk is None:
            return func(*args, **kwargs)
        trunk, traits = self.trunk, traits_of(func)
        if traits.reads:
            trunk.look(args[0])
            return func(*args, **kwargs)
        if traits.shapes:
            trunk.shaped_by_values(func)
        if traits.written:
            trunk.write(written(traits, args, kwargs))
        if func is torch.ops.aten.lift_fresh.default:
            made: Tensor = func(*args, **kwargs)
            trunk.made(made.clone(), made, seen=self._calling)
            return made
        arguments = self._arguments(args, kwargs, trunk.operand)
        out = self._carry_out(func, args, kwargs)
        trunk.record(func, arguments, [leaf for leaf in _leaves(out) if isinstance(leaf, Tensor)])
        return out

    def close(self) -> None:
        """Stop recording; what the network has kept of this pass becomes a plain tensor."""
        self._open = False
        kept = [tensor for reference in self._traced if (tensor := reference()) is not None]
        self._traced.clear()
        for tensor in kept:
            with suppress(RuntimeError):  # one that torch holds on to computes as its value does
                torch.utils.swap_tensors(tensor, tensor.value.detach())

    def trace(self, value: Tensor, slot: Slot) -> Traced:
        """Wrap a value of this pass."""
        traced = Traced(value, slot, self)
        self._traced.append(weakref.ref(traced))
        return traced

    def perturb(self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor) -> Tensor:
        """Apply the noise of the one draw; the result is traced from here on."""
        if x.is_sparse or x.is_nested:
            self._refuse(f"dropout of a {x.layout} tensor")
        if torch.is_grad_enabled():
            self._refuse("the network takes gradients itself")
        with torch._C._DisableTorchDispatch():
            value = perturbation(numbers, x.value if type(x) is Traced else x)[0]
        return self.trace(value, self.tape.perturb(perturbation, self._operand(x), value))

    def perturb_in_place(
        self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor
    ) -> Tensor:
        """The same into a new tensor; who reads the old one after that gets the slow way."""
        self._overwritten.append(x.value if type(x) is Traced else x)
        return self.perturb(perturbation, numbers, x)

    def own_randomness(self, name: str) -> None:
        """A tape would repeat the same random numbers for every draw."""
        if self._shared:
            raise UnshareableError(
                f"shared=True: the network calls {name} itself, and such noise cannot be shared by "
                f"the rows of a batch; use shared=False, or dubio.register the module."
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
        """Call a torch function; operations on traced tensors are recorded on the way."""
        if function in WHOLE:
            return self._call_whole(function, args, kwargs)
        name = getattr(function, "__name__", "")
        if self._overwritten and name not in _METADATA:
            self.check_overwritten((args, kwargs))
        if name in LOOKS and args:
            self._look(args[0])
        elif name in MAKERS:
            self._look_into((*args, *kwargs.values()))
        if name.endswith("_") and args and type(args[0]) is not Traced:
            changed = self._out_of_place(name, args, kwargs)
            if changed is not None:
                return changed
        self._calling = True
        try:
            return function(*args, **kwargs)
        finally:
            self._calling = False

    def _look_into(self, things: Sequence[Any]) -> None:
        """Torch makes a tensor of the numbers in lists, and reads those of tensors among them."""
        for thing in things:
            if isinstance(thing, list | tuple):
                for leaf in tree_leaves(thing):
                    self._look(leaf)

    def _look(self, x: Any) -> None:
        """Python sees the values of a tensor, if it is one."""
        if type(x) is Traced:
            self.tape.obstacle = "Python reads a sampled value"
        elif self.trunk is not None and isinstance(x, Tensor):
            self.trunk.look(x)

    def _call_whole(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self.check_overwritten((args, kwargs))
        traced = False
        for arg in (*args, *kwargs.values()):
            for leaf in arg if isinstance(arg, (list, tuple)) else (arg,):
                if isinstance(leaf, Tensor) and torch.is_autocast_enabled(leaf.device.type):
                    return function(*args, **kwargs)
                traced = traced or type(leaf) is Traced
        return (self.record if traced else self.plain)(function, args, kwargs)

    def record(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Carry an operation out for the one draw and put it on the tape."""
        if not self._open:
            return self._carry_out(function, args, kwargs)
        if torch.is_grad_enabled():
            self._refuse("the network takes gradients itself")
        self.check_overwritten((args, kwargs))
        self._refuse_irreversible(function, args, kwargs)
        out = self._carry_out(function, args, kwargs)
        results = [leaf for leaf in _leaves(out) if isinstance(leaf, Tensor)]
        if not results:
            self.tape.obstacle = f"Python reads a sampled value through {function}"
            return out
        slots = iter(
            self.tape.call(function, self._arguments(args, kwargs, self._operand), results)
        )
        by_value = {
            id(leaf.value): leaf
            for arg in (*args, *kwargs.values())
            for leaf in _leaves(arg)
            if type(leaf) is Traced
        }

        def wrap(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            slot, same = next(slots), by_value.get(id(leaf))
            if same is None:
                return self.trace(leaf, slot)
            if same.shape != leaf.shape:
                self._refuse(f"{function} changes the shape of a tensor in place")
            same.slot = slot
            return same

        return wrap(out) if isinstance(out, Tensor) else type(out)(map(wrap, out))

    def _carry_out(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function for the one draw, out of sight."""
        named = {name: _plain(arg) for name, arg in kwargs.items()}
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            return function(*map(_plain, args), **named)

    def _arguments(
        self,
        args: Iterable[Any],
        kwargs: Mapping[str, Any],
        operand: Callable[[Tensor], Slot | Tensor],
    ) -> Arguments:
        """How the tape refers to arguments."""

        def refer(arg: Any) -> Any:
            if isinstance(arg, Tensor):
                return operand(arg)
            if type(arg) in (list, tuple):
                return [operand(part) if isinstance(part, Tensor) else part for part in arg]
            return arg

        return Arguments(list(map(refer, args)), {name: refer(arg) for name, arg in kwargs.items()})

    def _operand(self, x: Tensor) -> Slot | Tensor:
        """How the tape refers to a tensor: by slot if it has one, else by the tensor itself."""
        if type(x) is Traced:
            return x.slot
        self.tape.hold(x)
        return x if self.trunk is None else self.trunk.operand(x)

    def _refuse(self, obstacle: str) -> None:
        """Give the recording up, also if the network swallows the exception."""
        self.tape.obstacle = obstacle
        raise UntraceableError(obstacle)

    def _refuse_irreversible(
        self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        traits = traits_of(function)
        if traits.reads or (traits.shapes and _by_value(function, args)):
            self.tape.obstacle = f"shapes or branches depend on a sampled value ({function})"
        for target in written(traits, args, kwargs):
            if isinstance(target, Tensor) and type(target) is not Traced:
                self._refuse(f"{function} writes a sampled value into a plain tensor")

    def _out_of_place(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``h += sampled`` on a plain h gives a new, traced h."""
        if not any(type(arg) is Traced for arg in args[1:]):
            return None
        plain = _REFLECTED.get(name, name[:-1] if not name.endswith("__") else "")
        method = getattr(Tensor, plain, None) if plain else None
        if method is None or not isinstance(args[0], Tensor):
            return None
        out = method(*args, **kwargs)
        if out.dtype != args[0].dtype:
            out = out.to(args[0].dtype)
        self._overwritten.append(args[0])
        return out

    def check_overwritten(self, structure: Any) -> None:
        """Refuse tensors that should hold a sampled value written over them."""
        if not self._overwritten:
            return
        old = {tensor.untyped_storage().data_ptr() for tensor in self._overwritten}
        for leaf in tree_leaves(structure):
            if isinstance(leaf, Tensor):
                value = leaf.value if type(leaf) is Traced else leaf
                if value.layout == torch.strided and value.untyped_storage().data_ptr() in old:
                    self._refuse("a tensor is read after a sampled value was written over it")


def _leaves(arg: Any) -> Iterable[Any]:
    return arg if isinstance(arg, (list, tuple)) else (arg,)


def _plain(arg: Any) -> Any:
    """An argument with the values of the one draw in it."""
    if type(arg) is Traced:
        return arg.value
    if type(arg) in (list, tuple):
        return [part.value if type(part) is Traced else part for part in arg]
    return arg


def _by_value(function: Any, args: Sequence[Any]) -> bool:
    """Whether the shape of the result depends on traced values, not only on their shapes."""
    if function is torch.ops.aten.index.Tensor:
        indices = [leaf for arg in args[1:] for leaf in _leaves(arg)]
        return any(
            type(leaf) is Traced and leaf.dtype in (torch.bool, torch.uint8) for leaf in indices
        )
    return True
