"""Clark et al. 2022, table 3: test error in percent, by method and units of a hidden layer."""

AUTHORS = {
    "gaussian": {400: 1.31, 800: 1.19, 1200: 1.35},
    "mixture": {400: 1.42, 800: 1.42, 1200: 1.45},
    "plain": {400: 1.95, 800: 1.68, 1200: 1.83},
    "dropout": {400: 1.27, 800: 1.41, 1200: 1.37},
}
"""Those of the replication."""

BLUNDELL = {
    "gaussian": {400: 1.82, 800: 1.99, 1200: 2.04},
    "mixture": {400: 1.36, 800: 1.34, 1200: 1.32},
    "plain": {400: 1.83, 800: 1.84, 1200: 1.88},
    "dropout": {400: 1.51, 800: 1.33, 1200: 1.36},
}
"""Those of Blundell et al. 2015; the replication misprints 2.04 as 2.02."""


def by_width(table: dict[str, dict[int, float]], method: str) -> dict[int, float]:
    """The errors of a method, or of that which a variant of ours stands beside."""
    return table[method.split()[-1]]
