"""UCI regression as Gal et al. 2017 and Gal & Ghahramani 2016 compare on it."""

DATA = tuple(
    f"uci-{name}"
    for name in (
        "bostonHousing", "concrete", "energy", "kin8nm", "naval-propulsion-plant", "power-plant",
        "protein-tertiary-structure", "wine-quality-red", "yacht",
    )
)  # fmt: skip
