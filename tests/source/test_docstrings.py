"""Every public name has a docstring: functions say what they do, classes what they are."""

import ast
import importlib
import inspect

import pytest

from source_modules import LIBRARY, parsed

NAMESPACES = [
    "dubio",
    "dubio.calibrate",
    "dubio.conversion.rules",
    "dubio.data",
    "dubio.decide",
    "dubio.estimators",
    "dubio.evaluation",
    "dubio.likelihoods",
    "dubio.masks",
    "dubio.metrics",
    "dubio.priors",
    "dubio.recommend",
    "dubio.regression",
]
# What a summary begins with if it names a result, and not what is done.
NOUN_PHRASES = {"A", "An", "All", "How", "That", "The", "What", "Where", "Whether", "Which"}


def public(namespace):
    """The public classes and functions of a namespace, and public members of the classes."""
    module = importlib.import_module(namespace)
    for name in module.__all__:
        thing = getattr(module, name)
        if not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        yield f"{namespace}.{name}", thing
        members = vars(thing).items() if inspect.isclass(thing) else ()
        for member, value in members:
            function = getattr(value, "fget", None) or getattr(value, "__func__", value)
            if not member.startswith("_") and inspect.isfunction(function):
                yield f"{namespace}.{name}.{member}", function


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_public_names_have_docstrings(namespace):
    assert [name for name, thing in public(namespace) if not thing.__doc__] == []


def is_property(function):
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def summaries():
    """The first line of the docstring of every function that is not a property, with its place."""
    for path, module in parsed(LIBRARY).items():
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef) and not is_property(node):
                docstring = ast.get_docstring(node)
                if docstring:
                    yield f"{path}:{node.lineno} {node.name}", docstring.splitlines()[0]


def test_functions_say_what_they_do():
    found = dict(summaries())
    assert len(found) > 1500
    nouns = {place: line for place, line in found.items() if line.split()[0] in NOUN_PHRASES}
    assert nouns == {}
