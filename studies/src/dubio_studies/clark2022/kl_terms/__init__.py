"""Clark et al. 2022, table 3 again: how the KL is weighed, and how that of a mixture is had."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="The authors' weights of the KL",
    about="Table 3 by the authors' protocol, the same with even weights, and a mixture's KL "
    "without sampling noise.",
    covers=("our own sequel: table 3 by the authors' protocol",),
    cost={"smoke": "5 s", "small": "80 min", "paper": "70 h"},
    data=("mnist",),
)
