"""A type name exists once, so that a reader who meets it knows which type it is."""

import ast
from collections import defaultdict

import pytest

from source_modules import LIBRARY, STUDIES, parsed

# The same distribution in the namespaces dubio.masks, dubio.priors and dubio.likelihoods.
FAMILIES = {"Bernoulli", "Gaussian", "Laplace"}
# Every study has one.
CONFIG = {"Config"}


def classes(folder):
    """Paths of the modules that define each class."""
    paths = defaultdict(list)
    for path, module in parsed(folder).items():
        for node in module.body:
            if isinstance(node, ast.ClassDef):
                paths[node.name].append(path)
    return paths


def is_type_name(name):
    return name[0].isupper() and not name.isupper()


def aliases(folder):
    """What each alias of a type stands for, in the modules that define it."""
    meanings = defaultdict(dict)
    for path, module in parsed(folder).items():
        for node in module.body:
            match node:
                case ast.AnnAssign(ast.Name(name), ast.Name("TypeAlias"), ast.expr() as value):
                    pass
                case ast.Assign([ast.Name(name)], value) if is_type_name(name):
                    pass
                case _:
                    continue
            meanings[name][path] = ast.unparse(value).replace("npt.", "")
    return meanings


@pytest.mark.parametrize(("folder", "allowed"), [(LIBRARY, FAMILIES), (STUDIES, CONFIG)])
def test_a_class_name_exists_once(folder, allowed):
    twice = {name: paths for name, paths in classes(folder).items() if len(paths) > 1}
    assert {name: paths for name, paths in twice.items() if name not in allowed} == {}


@pytest.mark.parametrize("folder", [LIBRARY, STUDIES])
def test_no_alias_has_the_name_of_a_class(folder):
    assert aliases(folder).keys() & classes(folder).keys() == set()


def test_an_alias_means_the_same_in_every_module():
    several = {name: at for name, at in aliases(LIBRARY).items() if len(set(at.values())) > 1}
    assert several == {}
