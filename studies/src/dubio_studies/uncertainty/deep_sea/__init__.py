"""Deep sea: who finds the one way in 2ᴺ to the treasure?"""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Deep sea: which methods explore deeply?",
    about=(
        "Episodes until N right steps in a row are found, with ε-greedy, dropout, learned "
        "rates and ensembles."
    ),
    covers=("deep sea of bsuite, Osband et al. 2020",),
    cost={"smoke": "10 s", "small": "20 min", "paper": "1 h"},
)
