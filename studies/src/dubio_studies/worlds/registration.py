"""The names of the worlds in Gymnasium."""

import gymnasium

_HERE = "dubio_studies.worlds"


def register_worlds() -> None:
    """Make `gymnasium.make("dubio/Forager-v0")` and its kin work; a second call does nothing."""
    if "dubio/Forager-v0" in gymnasium.registry:
        return
    gymnasium.register(
        id="dubio/Forager-v0",
        entry_point=f"{_HERE}.forager:Forager",
        vector_entry_point=f"{_HERE}.foragers:Foragers",
    )
    gymnasium.register(
        id="dubio/CartPoleSwingUp-v0",
        entry_point=f"{_HERE}.cart_pole:CartPoleSwingUp",
        max_episode_steps=25,
    )
    gymnasium.register(id="dubio/DeepSea-v0", entry_point=f"{_HERE}.deep_sea:DeepSea")
