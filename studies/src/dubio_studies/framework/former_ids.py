"""Studies were once named by the number of their paper.

Hashes and seeds are still made from those names: so a stored run keeps its folder, and the command
that made it computes the same numbers again.
"""

NUMBERS = {
    "boluki2020": "000",
    "gal2017": "001",
    "gal2016": "002",
    "herlau2022": "003",
    "clark2022": "004",
}


def former_id(name: str) -> str:
    """The id that hashes and seeds are made from: ``002/table-1`` for ``gal2016/table-1``."""
    family, slash, rest = name.partition("/")
    return f"{NUMBERS.get(family, family)}{slash}{rest}"


def present_id(name: str) -> str:
    """The id of today: ``gal2016/table-1`` for ``002/table-1``."""
    family, slash, rest = name.partition("/")
    authors = {number: author for author, number in NUMBERS.items()}
    return f"{authors.get(family, family)}{slash}{rest}"
