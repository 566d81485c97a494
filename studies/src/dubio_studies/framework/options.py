"""A config's fields as options of the command line.

Names and types come from the dataclass, explanations from the ``Attributes:`` of its docstring.
"""

import argparse
import dataclasses
import inspect
import math
import re
import shlex
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dubio_studies.framework.study import Scale

PREFIX = "setting_"


def add_options(parser: argparse.ArgumentParser, scales: Mapping[Scale, Any]) -> None:
    """Add an option for every field of the config, to be used in place of the scale's value."""
    config = type(scales["small"])
    hints, helps = get_type_hints(config), explanations(config)
    group = parser.add_argument_group(
        "settings", "Default values depend on the scale: smoke, small, paper."
    )
    for field in dataclasses.fields(config):
        values = [getattr(scales[scale], field.name) for scale in scales]
        shown = [values[0]] if all(v == values[0] for v in values) else values
        text = f"{helps[field.name]} [{', '.join(map(spell, shown))}]".replace("%", "%%")
        group.add_argument(
            f"--{field.name.replace('_', '-')}",
            dest=PREFIX + field.name,
            default=argparse.SUPPRESS,
            help=text,
            **kind(hints[field.name], field.name),
        )


def configure(config: Any, arguments: argparse.Namespace) -> Any:
    """The config with the fields that were given as options."""
    hints = get_type_hints(type(config))
    given = {
        name.removeprefix(PREFIX): value
        for name, value in vars(arguments).items()
        if name.startswith(PREFIX)
    }
    for name, value in given.items():
        if get_origin(hints[name]) is tuple:
            given[name] = tuple(value)
    return dataclasses.replace(config, **given)


def config_of(config: Any, settings: Mapping[str, Any]) -> Any:
    """A config of the same type with these settings, as JSON has them."""
    tuples = {name: tuple(v) if isinstance(v, list) else v for name, v in settings.items()}
    return dataclasses.replace(config, **tuples)


def as_options(settings: Mapping[str, Any]) -> str:
    """Settings as they are written on the command line."""
    words = []
    for name, value in settings.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            values = value if isinstance(value, tuple | list) else [value]
            words += [f"--{option}", *(shlex.quote(spell(v)) for v in values)]
    return " ".join(words)


def spell(value: Any) -> str:
    """A value as it is typed."""
    if isinstance(value, tuple | list):
        return " ".join(map(spell, value))
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)


def kind(hint: Any, name: str) -> dict[str, Any]:
    """What argparse needs to know about a type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is bool:
        return {"action": argparse.BooleanOptionalAction}
    if hint in (int, float, str):
        return {
            "type": number(hint) if hint is not str else readable,
            "metavar": hint.__name__.upper(),
        }
    if origin is Literal:
        return {"choices": arguments}
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
        return {**kind(arguments[0], name), "nargs": "+"}
    if origin in (Union, types.UnionType) and type(None) in arguments and len(arguments) == 2:
        return kind(next(a for a in arguments if a is not type(None)), name)
    raise TypeError(
        f"{name}: expected int, float, str, bool, a Literal, a tuple of them with … or one of them "
        f"or None, got {hint}."
    )


def number(hint: type) -> Callable[[str], Any]:
    """Parses a number, and says what was expected."""

    def parse(text: str) -> Any:
        try:
            value = hint(text)
        except ValueError:
            wanted = "a whole number" if hint is int else "a number"
            raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}") from None
        if not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"expected a finite number, got {text!r}")
        return value

    return parse


def readable(text: str) -> str:
    """A text that files of JSON can hold; bytes of a name in another encoding are none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"expected a text in UTF-8, got {text!r}") from None
    return text


def explanations(config: type) -> dict[str, str]:
    """What its docstring, or that of a class it inherits from, says under ``Attributes:``."""
    helps: dict[str, str] = {}
    for documented in reversed(config.__mro__):
        _, _, section = (inspect.getdoc(documented) or "").partition("Attributes:\n")
        found = re.findall(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", section, flags=re.MULTILINE)
        helps |= {name: re.sub(r"\s+", " ", text).rstrip(".") for name, text in found}
    for field in dataclasses.fields(config):
        if field.name not in helps:
            raise TypeError(f"{config.__qualname__}: expected {field.name} under Attributes.")
    return helps
