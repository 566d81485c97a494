"""What a prepared predictor must notice of classes, functions and orders that change."""

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

import dubio
from references import seeded

Change: TypeAlias = tuple[nn.Module, Callable[[], object]]  # a network, and what changes it
X = torch.randn(3, 4, generator=seeded(1))


class Scaled(nn.Module):
    """Every subclass scales by something else."""

    factor = 1.0

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.drop = nn.Linear(4, 20), nn.Linear(20, 3), nn.Dropout(0.3)

    def scale(self, h: Tensor) -> Tensor:
        return h * self.factor

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.drop(self.scale(self.a(x))))


class Holds(Scaled):
    """Scales by what a function makes of a thing that it holds."""

    def __init__(self, thing: Any, read: Callable[[Any], float]) -> None:
        super().__init__()
        self.thing, self.read = thing, read

    def scale(self, h: Tensor) -> Tensor:
        return h * self.read(self.thing)


def a_method_that_a_subclass_gets() -> Change:
    kind = type("Sub", (Scaled,), {})
    return kind(), lambda: setattr(kind, "scale", lambda self, h: 5 * h)


def an_attribute_that_a_subclass_gets() -> Change:
    kind = type("Sub", (Scaled,), {})
    return kind(), lambda: setattr(kind, "factor", 5.0)


def an_attribute_that_a_class_between_gets() -> Change:
    between = type("Between", (Scaled,), {})
    return type("Sub", (between,), {})(), lambda: setattr(between, "factor", 5.0)


def an_attribute_that_a_subclass_loses() -> Change:
    class Sub(Scaled):
        factor: Any = None

        def scale(self, h: Tensor) -> Tensor:
            return h * (7 if self.factor is None else 1)

    return Sub(), lambda: delattr(Sub, "factor")


def a_forward_that_a_subclass_gets() -> Change:
    kind = type("Sub", (Scaled,), {})
    return kind(), lambda: setattr(kind, "forward", lambda self, x: 7 * Scaled.forward(self, x))


def a_call_that_a_subclass_gets() -> Change:
    kind = type("Sub", (Scaled,), {})
    return kind(), lambda: setattr(kind, "__call__", lambda self, x: 7 * self.forward(x))


def another_class() -> Change:
    network = Scaled()
    return network, lambda: setattr(network, "__class__", type("Sub", (Scaled,), {"factor": 5.0}))


def another_base() -> Change:
    plain, other = type("Plain", (Scaled,), {}), type("Other", (Scaled,), {"factor": 5.0})
    kind = type("Sub", (plain,), {})
    return kind(), lambda: setattr(kind, "__bases__", (other,))


def an_attribute_of_a_class_of_classes() -> Change:
    class Kind(type):
        size = 1.0

    class Sub(Scaled, metaclass=Kind):
        def scale(self, h: Tensor) -> Tensor:
            return h * type(self).size

    return Sub(), lambda: setattr(Kind, "size", 5.0)


def defaults_by_name() -> Change:
    class Sub(Scaled):
        def scale(self, h: Tensor, *, by: float = 1.0) -> Tensor:
            return h * by

    return Sub(), lambda: setattr(Sub.scale, "__kwdefaults__", {"by": 5.0})


def an_attribute_of_a_function() -> Change:
    def read(thing: Any) -> float:
        return getattr(read, "by", 1.0)

    return Holds(None, read), lambda: setattr(read, "by", 5.0)


def order_of_a_dict() -> Change:
    network = Holds([{"a": 1.0, "b": 5.0}], lambda thing: next(iter(thing[0].values())))
    return network, lambda: _to_the_end(network.thing[0], "a")


def order_of_a_set() -> Change:
    network = Holds({1, 9}, lambda thing: next(iter(thing)))  # which meet in a table of eight

    def change() -> None:
        network.thing.clear()
        network.thing.add(9)
        network.thing.add(1)

    return network, change


def order_of_attributes() -> Change:
    network = Holds(None, lambda thing: 1.0)

    def read(thing: Any) -> float:
        return next(v for name, v in vars(network).items() if name in ("first", "second"))

    network.first, network.second, network.read = 1.0, 5.0, read  # type: ignore[assignment]
    return network, lambda: _to_the_end(vars(network), "first")


class InOrder(Scaled):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({"tanh": nn.Tanh(), "linear": nn.Linear(20, 20)})

    def scale(self, h: Tensor) -> Tensor:
        for layer in self.layers.values():
            h = layer(h)
        return h


def order_of_modules() -> Change:
    network = InOrder()
    return network, lambda: _to_the_end(network.layers, "tanh")


def order_of_hooks() -> Change:
    network = Scaled()
    network.a.register_forward_hook(lambda module, given, h: h + 1)
    network.a.register_forward_hook(lambda module, given, h: h * 3)
    hooks = network.a._forward_hooks
    return network, lambda: _to_the_end(hooks, next(iter(hooks)))


def _to_the_end(container: Any, key: Any) -> None:
    container[key] = container.pop(key)


def a_special_method() -> Change:
    kind = type("Reader", (), {"__getitem__": lambda self, name: 1.0})
    network = Holds(kind(), lambda thing: thing["factor"])
    return network, lambda: setattr(kind, "__getitem__", lambda self, name: 5.0)


def names_that_are_made_up() -> Change:
    kind = type("Reader", (), {"__getattr__": lambda self, name: 1.0})
    network = Holds(kind(), lambda thing: thing.factor)
    return network, lambda: setattr(kind, "__getattr__", lambda self, name: 5.0)


def variables_around_a_special_method() -> Change:
    numbers = [1.0]

    class Around:
        def __len__(self) -> int:
            return int(numbers[0])

    return Holds(Around(), len), lambda: numbers.__setitem__(0, 5.0)


def variables_around_a_descriptor() -> Change:
    numbers = [1.0]

    class Descriptor:
        def __get__(self, owner: Any, kind: type) -> float:
            return numbers[0]

    kind = type("Sub", (Scaled,), {"factor": Descriptor()})
    return kind(), lambda: numbers.__setitem__(0, 5.0)


def a_constructor() -> Change:
    class Made:
        def __init__(self) -> None:
            self.by = 1.0

    def make(self: Any) -> None:
        self.by = 5.0

    return Holds(None, lambda thing: Made().by), lambda: setattr(Made, "__init__", make)


def a_method_of_a_dict() -> Change:
    class Settings(dict[str, float]):
        def __getattr__(self, name: str) -> float:
            return self[name]

    network = Holds(Settings(by=1.0), lambda thing: thing.by)
    return network, lambda: setattr(Settings, "__getattr__", lambda self, name: 5.0)


def an_attribute_of_a_list() -> Change:
    class Numbers(list[float]):
        by = 1.0

    network = Holds(Numbers(), lambda thing: thing.by)
    return network, lambda: setattr(network.thing, "by", 5.0)


def an_attribute_of_a_tensor() -> Change:
    network = Holds(None, lambda thing: 1.0)
    network.read = lambda thing: getattr(network.a.weight, "by", 1.0)
    return network, lambda: setattr(network.a.weight, "by", 5.0)


def what_a_weak_reference_leads_to() -> Change:
    options = _Options()
    network = Holds(weakref.ref(options), lambda thing: thing().by)
    return network, lambda: setattr(options, "by", 5.0)


class _Options:
    by = 1.0


def arguments_of_a_partial() -> Change:
    network = Holds(2.0, functools.partial(pow, exp=1.0))
    return network, lambda: network.read.keywords.update(exp=3.0)  # type: ignore[attr-defined]


def a_global_in_place_of_a_builtin() -> Change:
    def change() -> None:
        globals()["abs"] = lambda value: 5.0

    return Holds(-1.0, lambda thing: abs(thing)), change


def a_hook_for_all_modules() -> Change:
    network = Scaled()
    return network, lambda: register_module_forward_hook(
        lambda module, given, y: 5 * y if module is network.a else None
    )


def the_default_type() -> Change:
    network = Holds(None, lambda thing: torch.ones(()).element_size())
    return network, lambda: torch.set_default_dtype(torch.float64)


@pytest.fixture(autouse=True)
def all_as_it_was() -> Iterator[None]:
    hooks = nn.modules.module._global_forward_hooks
    before = set(hooks)
    yield
    torch.set_default_dtype(torch.float32)
    globals().pop("abs", None)
    for number in set(hooks) - before:
        del hooks[number]


@pytest.mark.parametrize(
    "case",
    [
        a_method_that_a_subclass_gets, an_attribute_that_a_subclass_gets,
        an_attribute_that_a_class_between_gets, an_attribute_that_a_subclass_loses,
        a_forward_that_a_subclass_gets, a_call_that_a_subclass_gets, another_class, another_base,
        an_attribute_of_a_class_of_classes, defaults_by_name, an_attribute_of_a_function,
        order_of_a_dict, order_of_a_set, order_of_attributes, order_of_modules, order_of_hooks,
        a_special_method, names_that_are_made_up, variables_around_a_special_method,
        variables_around_a_descriptor, a_constructor, a_method_of_a_dict, an_attribute_of_a_list,
        an_attribute_of_a_tensor, what_a_weak_reference_leads_to, arguments_of_a_partial,
        a_global_in_place_of_a_builtin, a_hook_for_all_modules, the_default_type,
    ],
)  # fmt: skip
def test_a_change_is_seen(case: Callable[[], Change]) -> None:
    network, change = case()
    predictor = dubio.Predictor(network, draws=4)
    before = predictor(X, seeded()).draws
    torch.testing.assert_close(predictor(X, seeded()).draws, before)
    change()
    expected = dubio.predict(network, X, draws=4, generator=seeded()).draws
    assert not torch.allclose(expected, before)
    torch.testing.assert_close(predictor(X, seeded()).draws, expected)
