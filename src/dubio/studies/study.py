"""What a study is: a config for each scale, pieces of work, and what their rows show."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, final, get_args

from dubio.studies.rows import Rows, Scalar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scale = Literal["smoke", "small", "paper"]
"""Seconds, for tests; minutes on two cores, the default; the paper's full protocol."""

SCALES: tuple[Scale, ...] = get_args(Scale)

Verdict = Literal["reproduces", "better", "worse"]

Piece = Mapping[str, Scalar]
"""Names a part of the work that can be done by itself; its fields become fields of its rows."""

Measurement = Mapping[str, Scalar]
"""What a piece yields: at least ``metric`` and ``value``, and fields that tell rows apart."""

Size = tuple[float, float]  # inches; the page shows an inch as 72 pixels or a little more

C = TypeVar("C")


@final
@dataclass(frozen=True)
class Seed:
    """Seeds of a piece, derived from names and numbers alone: never from order or process.

    The global random numbers of torch and numpy are seeded with ``own`` before a piece starts.
    Those of Python are not, since other threads may use them; take ``random.Random(seed.own)``.

    Attributes:
        own: From study, config, piece and the user's seed: for the noise of this piece.
        common: From study and the user's seed: for what all pieces share, such as data.
        given: The user's seed itself: for what several studies share, such as networks.
    """

    own: int
    common: int
    given: int


@final
@dataclass(frozen=True)
class Finding:
    """What our rows say about a claim.

    Attributes:
        ours: Our values, in words.
        verdict: How they compare with the published ones.
    """

    ours: str
    verdict: Verdict


@final
@dataclass(frozen=True)
class Claim:
    """Something the paper says, and a rule that decides whether our rows agree.

    Attributes:
        text: The claim.
        published: The paper's values, or where it shows them.
        rule: When it counts as reproduced, in words.
        judge: That rule, as a function of the rows alone.
    """

    text: str
    published: str
    rule: str
    judge: Callable[[Rows], Finding]


@final
@dataclass(frozen=True)
class Table:
    """A table of the page; the first column names its rows.

    Attributes:
        title: What it shows.
        columns: Heads of the columns.
        rows: Cells as text; ``**…**`` around a cell makes it stand out.
        note: What a reader must know to read it.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@final
@dataclass(frozen=True)
class Plot:
    """A figure of the page, drawn for a wide and for a narrow screen.

    Attributes:
        name: Told apart from the other figures of the study; letters, digits and hyphens.
        title: What it shows.
        description: Read aloud in place of the picture.
        draw: From a size in inches to the figure.
        wide: Size on a desk.
        narrow: Size on a phone.
        note: What a reader must know to read it.
    """

    name: str
    title: str
    description: str
    draw: Callable[[Size], "Figure"]
    wide: Size = (12.0, 5.0)
    narrow: Size = (5.0, 5.0)
    note: str = ""


@final
@dataclass(frozen=True)
class Study(Generic[C]):
    """A table or figure of a paper, or a comparison of our own, as code.

    Attributes:
        id: Paper or family, and name: ``002/table-1``; as in the catalogue.
        protocol: What is computed, in a few sentences for the page.
        scales: A config, which is a frozen dataclass, for each scale.
        pieces: The independent parts of the work.
        run: Does one piece. Runs in any process, so all it knows is its arguments.
        exhibits: Tables and figures, from rows alone.
        claims: What the paper says.
        deviations: Where we depart from the paper at every scale, a sentence each. Settings that
            differ from those of the ``paper`` scale are found by themselves.
        revision: Raise it when ``run`` changes its results: stored rows then count no more.
        backdrop: Data that figures show beside the rows: none if they are not here. They are read
            whenever pages are made and not stored, as they are not ours to pass on.
    """

    id: str
    protocol: str
    scales: Mapping[Scale, C]
    pieces: Callable[[C], Sequence[Piece]]
    run: Callable[[C, Piece, Seed], Iterable[Measurement]]
    exhibits: Callable[[Rows], Sequence[Table | Plot]]
    claims: Sequence[Claim]
    deviations: Sequence[str] = ()
    revision: int = 1
    backdrop: Callable[[], Iterable[Measurement]] = tuple
