"""The tables, and values of them as they are printed. Nothing here computes."""

from collections.abc import Collection

TABLES = (
    "boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine", "yacht"
)  # fmt: skip
TITLES = {
    "boston": "Boston housing",
    "concrete": "Concrete strength",
    "energy": "Energy efficiency",
    "kin8nm": "Kin8nm",
    "naval": "Naval propulsion",
    "power": "Power plant",
    "protein": "Protein structure",
    "wine": "Red wine quality",
    "yacht": "Yacht hydrodynamics",
}
LONGEST = ("protein", "naval", "power", "kin8nm")  # to compute
LONG = "long "  # before the name of a method whose networks are trained for longer


def longest_first(tables: Collection[str]) -> list[str]:
    """Some of the tables, in the order in which to compute them."""
    return [name for name in dict.fromkeys((*LONGEST, *TABLES)) if name in tables]


def as_printed(tables: Collection[str]) -> list[str]:
    """Some of the tables, in the order of the papers."""
    return [name for name in TABLES if name in tables]
