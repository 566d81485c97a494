"""A tensor that writes down what is done to it.

One ordinary pass over the network with the noise of one draw records a tape: from the first
perturbation on, values are `Traced`, and every operation on them lands on the tape, whoever calls
it (modules, functions, custom autograd functions, scripted code). Operations before the first
perturbation see plain tensors and leave no trace: the deterministic trunk enters the tape as
constants and never runs again.
"""

import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from dubio.draws.steps import Slot
from dubio.draws.tape import Tape
from dubio.noise.numbers import Numbers
from dubio.noise.perturbations import Perturbation


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
        """Carry an operation out for the draw that is being recorded, and record it."""
        kwargs = kwargs or {}
        leaves, _ = tree_flatten((args, kwargs))
        recorder = next(leaf.recorder for leaf in leaves if isinstance(leaf, Traced))
        with torch._C.DisableTorchFunction():
            return recorder.record(func, args, kwargs)

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


class Recorder:
    """Carries functions out for one draw and records those that depend on the noise."""

    def __init__(self, *, shared: bool) -> None:
        self.tape = Tape()
        self._shared = shared
        self._open = True
        self.met_unfed_randomness = False
        self._overwritten: list[Tensor] = []
        self._traced: list[weakref.ref[Traced]] = []

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

    def perturb(self, perturbation: Perturbation, numbers: Numbers, x: Tensor) -> Tensor:
        """Apply the noise of the one draw; the result is traced from here on."""
        if x.is_sparse or x.is_nested:
            self._refuse(f"dropout of a {x.layout} tensor")
        if torch.is_grad_enabled():
            self._refuse("the network takes gradients itself")
        value = perturbation(numbers, x.value if isinstance(x, Traced) else x)[0]
        slot = self.tape.perturb(perturbation, _operand(x), value)
        return self.trace(value, slot)

    def perturb_in_place(self, perturbation: Perturbation, numbers: Numbers, x: Tensor) -> Tensor:
        """The same into a new tensor; who reads the old one after that gets the slow way."""
        self._overwritten.append(x.value if isinstance(x, Traced) else x)
        return self.perturb(perturbation, numbers, x)

    def own_randomness(self, name: str) -> None:
        """A tape would repeat the same random numbers for every draw."""
        if self._shared:
            raise UnshareableError(
                f"shared=True: the network calls {name} itself, and such noise cannot be shared by "
                f"the rows of a batch; use shared=False, or dubio.register the module."
            )
        self.tape.obstacle = f"the network calls {name} itself"

    def refusing_unfed_randomness(self) -> TorchDispatchMode:
        """A context in which the recording is given up before torch's generator is used."""
        return _UnfedRandomness(self)

    def refuse_unfed_randomness(self, operation: str) -> None:
        """Give the recording up."""
        self.own_randomness(operation)
        self.met_unfed_randomness = True
        raise UntraceableError(operation)

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a torch function; operations on traced tensors are recorded on the way."""
        if getattr(function, "__name__", "") not in _METADATA:
            self.check_overwritten((args, kwargs))
        if function in WHOLE:
            traced = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Traced)]
            if traced and not torch.is_autocast_enabled(traced[0].device.type):
                return self.record(function, args, kwargs)
            return function(*args, **kwargs)
        name = getattr(function, "__name__", "")
        if name.endswith("_") and args and not isinstance(args[0], Traced):
            changed = self._out_of_place(name, args, kwargs)
            if changed is not None:
                return changed
        return function(*args, **kwargs)

    def record(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Carry an operation out for the one draw and put it on the tape."""
        leaves, spec = tree_flatten((args, kwargs))
        values = [leaf.value if isinstance(leaf, Traced) else leaf for leaf in leaves]
        plain_args, plain_kwargs = tree_unflatten(values, spec)
        if not self._open:
            return function(*plain_args, **plain_kwargs)
        if torch.is_grad_enabled():
            self._refuse("the network takes gradients itself")
        self.check_overwritten(leaves)
        self._refuse_irreversible(function, leaves, args, kwargs)
        out = function(*plain_args, **plain_kwargs)
        out_leaves, out_spec = tree_flatten(out)
        results = [leaf for leaf in out_leaves if isinstance(leaf, Tensor)]
        if not results:
            self.tape.obstacle = f"Python reads a sampled value through {function}"
            return out
        by_value = {id(leaf.value): leaf for leaf in leaves if isinstance(leaf, Traced)}
        slots = iter(self.tape.call(function, [_operand(leaf) for leaf in leaves], spec, results))
        wrapped = []
        for leaf in out_leaves:
            if not isinstance(leaf, Tensor):
                wrapped.append(leaf)
                continue
            slot = next(slots)
            same = by_value.get(id(leaf))
            if same is None:
                wrapped.append(self.trace(leaf, slot))
                continue
            if same.shape != leaf.shape:
                self._refuse(f"{function} changes the shape of a tensor in place")
            same.slot = slot
            wrapped.append(same)
        return tree_unflatten(wrapped, out_spec)

    def _refuse(self, obstacle: str) -> None:
        """Give the recording up, also if the network swallows the exception."""
        self.tape.obstacle = obstacle
        raise UntraceableError(obstacle)

    def _refuse_irreversible(
        self, function: Any, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if not isinstance(function, torch._ops.OpOverload):
            return
        tags = function.tags
        if torch.Tag.data_dependent_output in tags or (
            torch.Tag.dynamic_output_shape in tags and _by_value(function, leaves)
        ):
            self.tape.obstacle = f"shapes or branches depend on a sampled value ({function})"
        if function._schema.is_mutable:
            given = dict(zip((a.name for a in function._schema.arguments), args, strict=False))
            for argument in function._schema.arguments:
                value = {**given, **kwargs}.get(argument.name)
                written = argument.alias_info is not None and argument.alias_info.is_write
                if written and isinstance(value, Tensor) and not isinstance(value, Traced):
                    self._refuse(f"{function} writes a sampled value into a plain tensor")

    def _out_of_place(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``h += sampled`` on a plain h gives a new, traced h."""
        if not any(isinstance(arg, Traced) for arg in args[1:]):
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
                value = leaf.value if isinstance(leaf, Traced) else leaf
                if value.layout == torch.strided and value.untyped_storage().data_ptr() in old:
                    self._refuse("a tensor is read after a sampled value was written over it")


def _operand(x: Any) -> Any:
    """How the tape refers to an argument: by slot if it is traced, else by the thing itself."""
    return x.slot if isinstance(x, Traced) else x


def _by_value(function: Any, leaves: list[Any]) -> bool:
    """Whether the shape of the result depends on traced values, not only on their shapes."""
    if function is torch.ops.aten.index.Tensor:
        return any(
            isinstance(leaf, Traced) and leaf.dtype in (torch.bool, torch.uint8)
            for leaf in leaves[1:]
        )
    return True


class _UnfedRandomness(TorchDispatchMode):
    """Sees, in this thread, random operations that no generator was given to."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler to keep it out of here

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Look at an operation and carry it out."""
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and kwargs.get("generator") is None:
            name = str(func)
            if "scaled_dot_product" not in name:  # whose dropout is on the tape already
                self._recorder.refuse_unfed_randomness(name)
        return func(*args, **kwargs)
