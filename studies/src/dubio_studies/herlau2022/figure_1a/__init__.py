"""Herlau et al. 2022, figure 1a: paths of coefficients on the amino acids (QSPR)."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Regularisation paths on QSPR data",
    about="Coefficients of dropout, ridge and lasso as regularisation grows.",
    covers=("figure 1a",),
    cost={"smoke": "1 s", "small": "1 s", "paper": "1 s"},
    data=("qspr",),
)
