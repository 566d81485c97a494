"""What a study is: a card, a computation, and a page that shows and judges its rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar, final, get_args

from dubio.report.exhibits import Plot, Table
from dubio_studies.framework.claims import Claim
from dubio_studies.framework.ledger import Cell, RowsOf, no_cells
from dubio_studies.framework.rows import Rows, Scalar

Scale = Literal["smoke", "small", "paper"]
"""Seconds, for tests; minutes on two cores, the default; the paper's full protocol."""

SCALES: tuple[Scale, ...] = get_args(Scale)

Piece = Mapping[str, Scalar]
"""Names a part of the work that can be done by itself; its fields become fields of its rows."""

Measurement = Mapping[str, Scalar]
"""What a piece yields: at least ``metric`` and ``value``, and fields that tell rows apart."""

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
class Card:
    """What a list of studies shows of one. It loads no code.

    Attributes:
        title: A few words.
        about: What it shows, in one line.
        covers: The tables and figures of the paper that it stands for, or what it is.
        cost: About how long each scale takes on two cores.
        data: The data sets that it reads, as `dubio data` names them.
    """

    title: str
    about: str
    covers: tuple[str, ...]
    cost: Mapping[Scale, str] = field(default_factory=dict)
    data: tuple[str, ...] = ()


@final
@dataclass(frozen=True)
class Computation(Generic[C]):
    """From a config to rows.

    Attributes:
        protocol: What is computed, in a few sentences for the page.
        scales: A config, which is a frozen dataclass, for each scale.
        pieces: The independent parts of the work.
        run: Does one piece. Runs in any process, so all it knows is its arguments.
        deviations: Where we depart from the paper at every scale, a sentence each. Settings that
            differ from those of the ``paper`` scale are found by themselves.
        revision: Raise it when ``run`` changes its results: stored rows then count no more.
        backdrop: Data that figures show beside the rows: none if they are not here. They are read
            whenever pages are made and not stored, as they are not ours to pass on.
    """

    protocol: str
    scales: Mapping[Scale, C]
    pieces: Callable[[C], Sequence[Piece]]
    run: Callable[[C, Piece, Seed], Iterable[Measurement]]
    deviations: Sequence[str] = ()
    revision: int = 1
    backdrop: Callable[[], Iterable[Measurement]] = tuple


@final
@dataclass(frozen=True)
class Page:
    """From rows to what people see. Nothing here computes.

    Attributes:
        claims: What the paper says.
        exhibits: Tables and figures, from rows alone.
        examined: The run whose failures the claims explain, by scale and hash, such as
            ``small-1a2b3c4d``. To other runs the causes do not apply.
        ledger: Every number that the paper prints in the tables of this study, with ours.
    """

    claims: Sequence[Claim]
    exhibits: Callable[[Rows], Sequence[Table | Plot]]
    examined: str = ""
    ledger: Callable[[RowsOf], Sequence[Cell]] = no_cells


@final
@dataclass(frozen=True)
class Study(Generic[C]):
    """A table or figure of a paper, or a comparison of our own, as code.

    Attributes:
        id: Family and name: ``gal2016/table-1``; as in the catalogue.
        computation: What makes its rows.
        page: What shows them.
    """

    id: str
    computation: Computation[C]
    page: Page
