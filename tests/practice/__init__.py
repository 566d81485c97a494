"""A study for the tests of the machinery."""

import sys
from collections.abc import Sequence

from dubio import cli
from dubio_studies import catalogue
from dubio_studies.catalogue import Entry
from dubio_studies.framework.study import Card, Study
from practice.computation import COMPUTATION, Config, pieces
from practice.page import PAGE

__all__ = ["ENTRY", "ID", "STUDY", "Config", "command", "pieces"]

ID = "gal2016/practice"
STUDY = Study(ID, COMPUTATION, PAGE)
ENTRY = Entry(ID, Card("Practice", "Dice.", ("figure 0",)), "practice")


def command(arguments: Sequence[str]) -> None:
    """The command line with this study in the catalogue, for a process of its own."""
    catalogue.ENTRIES.append(ENTRY)
    sys.exit(cli.main(arguments))
