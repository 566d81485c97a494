"""Published values of tables 3 and 4: means over splits with standard errors."""

from typing import NamedTuple, final

from dubio_studies.uci.values import Value


@final
class PublishedRow(NamedTuple):
    """A row of table 3 or 4."""

    dropout: Value  # two layers, by the authors of Gal & Ghahramani 2016
    concrete: Value  # before the last M-step
    m_step: Value  # after it
    deep_gp: Value


def _of(*texts: str) -> PublishedRow:
    return PublishedRow(*(Value(*map(float, text.split(" ± "))) for text in texts))


LOG_LIKELIHOOD = {
    "boston": _of("-2.34 ± .03", "-2.72 ± .01", "-2.35 ± .05", "-2.17 ± .10"),
    "concrete": _of("-2.82 ± .02", "-3.51 ± 0", "-3.12 ± .07", "-2.61 ± .02"),
    "energy": _of("-1.48 ± 0", "-2.30 ± 0", "-.84 ± .03", "-.95 ± .01"),
    "kin8nm": _of("1.10 ± 0", ".65 ± 0", "1.24 ± 0", "1.79 ± .02"),
    "naval": _of("4.32 ± 0", "5.87 ± .05", "5.89 ± .05", "4.77 ± .32"),
    "power": _of("-2.67 ± .01", "-2.75 ± .01", "-2.75 ± .01", "-2.58 ± .01"),
    "protein": _of("-2.70 ± 0", "-2.81 ± 0", "-2.81 ± 0", "-2.11 ± .04"),
    "wine": _of("-.90 ± .01", "-1.70 ± 0", "-.94 ± .02", "-.10 ± .03"),
    "yacht": _of("-1.37 ± .02", "-1.75 ± 0", "-.77 ± .06", "-.99 ± .07"),
}
RMSE = {
    "boston": _of("2.80 ± .13", "2.65 ± .17", "2.65 ± .17", "2.38 ± .12"),
    "concrete": _of("4.50 ± .18", "4.46 ± .16", "4.46 ± .16", "4.64 ± .11"),
    "energy": _of(".47 ± .01", ".46 ± .02", ".46 ± .02", ".57 ± .02"),
    "kin8nm": _of(".08 ± 0", ".07 ± 0", ".07 ± 0", ".05 ± 0"),
    "naval": _of("0 ± 0", "0 ± 0", "0 ± 0", ".01 ± 0"),
    "power": _of("3.63 ± .04", "3.70 ± .04", "3.70 ± .04", "3.60 ± .03"),
    "protein": _of("3.62 ± .01", "3.85 ± .02", "3.85 ± .02", "3.24 ± .10"),
    "wine": _of(".60 ± .01", ".62 ± 0", ".62 ± 0", ".50 ± .01"),
    "yacht": _of(".66 ± .06", ".57 ± .05", ".57 ± .05", ".98 ± .09"),
}
