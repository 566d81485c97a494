"""Every method of the library on the same tables and the same digits."""

from dubio_studies.framework.study import Card
from dubio_studies.uci import DATA

CARD = Card(
    title="Which method should I use?",
    about="Ten methods on UCI tables and MNIST: error, likelihood, calibration, shifted inputs "
    "noticed, and cost in units of a plain network.",
    covers=("a comparison of all methods",),
    cost={"smoke": "10 s", "small": "40 min", "paper": "20 h"},
    data=(*DATA, "mnist", "fashion-mnist", "notmnist"),
)
