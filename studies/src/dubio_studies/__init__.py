"""Every table and figure of the papers behind dubio, as a command, a resumable run and a page.

Data flow one way: a config, its pieces, the rows of each piece, and from rows alone the tables,
figures, verdicts and pages. How to run a study and how to add one: ``docs/studies.md``.
"""

__version__ = "0.2.0"
