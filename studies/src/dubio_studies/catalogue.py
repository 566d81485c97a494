"""Every table and figure of the five papers, and comparisons of our own: one line each."""

import difflib
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, final

from dubio_studies.framework.former_ids import present_id
from dubio_studies.framework.study import SCALES, Card, Study

Status = Literal["implemented", "nothing to compute"]


class UnknownStudyError(LookupError):
    """A name that is no study's."""


@final
@dataclass(frozen=True)
class Family:
    """What the first part of an id stands for: a paper, or a question of our own.

    Attributes:
        title: Of the paper, or the question.
        citation: Authors and year; empty if it is no paper.
    """

    title: str
    citation: str = ""


FAMILIES = {
    "boluki2020": Family(
        "Learnable Bernoulli Dropout for Bayesian Deep Learning", "Boluki et al. 2020"
    ),
    "gal2017": Family("Concrete Dropout", "Gal et al. 2017"),
    "gal2016": Family(
        "Dropout as a Bayesian Approximation: Representing Model Uncertainty in Deep Learning",
        "Gal & Ghahramani 2016",
    ),
    "herlau2022": Family("Bayesian Dropout", "Herlau et al. 2022"),
    "clark2022": Family(
        "Weight Uncertainty in Neural Networks (Bayes by Backprop), a replication",
        "Clark et al. 2022",
    ),
    "uncertainty": Family("How good is the uncertainty? Our own comparisons"),
}


@final
@dataclass(frozen=True)
class Entry:
    """A table or figure, or several that belong together; or a comparison of our own.

    Attributes:
        id: Family and name, as on the command line.
        card: What it is.
        module: The package of its code; empty if there is nothing to compute.
    """

    id: str
    card: Card
    module: str = ""

    @property
    def family(self) -> str:
        """The first part of the id."""
        return self.id.partition("/")[0]

    @property
    def paper(self) -> str | None:
        """Authors and year; None for a comparison of our own."""
        return FAMILIES[self.family].citation or None

    @property
    def status(self) -> Status:
        """Whether there is code for it."""
        return "implemented" if self.module else "nothing to compute"

    def load(self) -> Study[Any]:
        """The study's code."""
        if not self.module:
            raise UnknownStudyError(
                f"{self.id}: {self.card.about} 'dubio list' shows what can be run."
            )
        computation = import_module(f"{self.module}.computation").COMPUTATION
        return Study(self.id, computation, import_module(f"{self.module}.page").PAGE)

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "id": self.id,
            "family": self.family,
            "paper": self.paper,
            "title": self.card.title,
            "about": self.card.about,
            "covers": list(self.card.covers),
            "status": self.status,
            "scales": list(SCALES) if self.module else [],
            "cost": dict(self.card.cost),
            "data": list(self.card.data),
        }


def study(name: str) -> Entry:
    """A study that there is code for, in the folder of its name."""
    module = f"dubio_studies.{name.replace('/', '.').replace('-', '_')}"
    return Entry(name, import_module(module).CARD, module)


def picture(name: str, title: str, about: str, *covers: str) -> Entry:
    """A figure behind which there is no computation."""
    return Entry(name, Card(title, about, covers))


ENTRIES = [
    study("boluki2020/figure-1"),
    study("boluki2020/table-1-cifar10"),
    study("boluki2020/cifar10-features"),
    study("boluki2020/table-1-camvid"),
    study("boluki2020/table-2"),
    study("boluki2020/thompson"),
    study("gal2017/figure-1"),
    study("gal2017/tables-3-4"),
    study("gal2017/mnist"),
    study("gal2017/table-1"),
    study("gal2017/table-2"),
    study("gal2017/figure-8"),
    study("gal2017/figure-9"),
    study("gal2017/figure-10"),
    study("gal2016/figure-1"),
    study("gal2016/figure-2"),
    study("gal2016/figure-3"),
    study("gal2016/solar"),
    study("gal2016/figure-4"),
    study("gal2016/table-1"),
    study("gal2016/figure-6"),
    study("herlau2022/figure-1a"),
    study("herlau2022/figure-1b"),
    study("herlau2022/figure-2"),
    study("clark2022/regression"),
    study("clark2022/figure-2-3"),
    study("clark2022/figure-4"),
    picture(
        "clark2022/figure-5",
        "Classes of the authors' code",
        "A class diagram; nothing to compute.",
        "figure 5",
    ),
    picture(
        "clark2022/figure-6",
        "The original authors' regression",
        "A copy of Blundell's figure 5, for comparison; nothing to compute.",
        "figure 6",
    ),
    study("clark2022/table-3"),
    study("clark2022/kl-terms"),
    study("clark2022/figure-16-17"),
    study("clark2022/figure-18"),
    study("clark2022/figure-19"),
    study("clark2022/figure-20-21"),
    study("clark2022/figure-22"),
    study("clark2022/figure-23-27"),
    study("clark2022/figure-26-27"),
    study("uncertainty/methods"),
    study("uncertainty/bandits"),
    study("uncertainty/deep-sea"),
    study("uncertainty/camvid-size"),
    study("uncertainty/cifar-accuracy"),
    study("uncertainty/digits-vs-shift"),
]


def find(name: str) -> Entry:
    """The entry with this id; an unknown id is answered with the nearest ones."""
    by_id = {entry.id: entry for entry in ENTRIES}
    if name in by_id:
        return by_id[name]
    if present_id(name) in by_id:
        raise UnknownStudyError(
            f"{name!r} is a former id; the study is now called {present_id(name)}."
        )
    if name in FAMILIES:
        own = ", ".join(entry.id for entry in ENTRIES if entry.family == name)
        raise UnknownStudyError(f"{name!r} has several studies; name one of {own}.")
    near = difflib.get_close_matches(name, by_id, n=3, cutoff=0.5)
    advice = f"did you mean {' or '.join(near)}?" if near else "'dubio list' shows all of them."
    raise UnknownStudyError(f"there is no study {name!r}; {advice}")
