"""Dropout rates, layer by layer: numbers in, a figure out."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from dubio.report.exhibits import Size
from dubio.report.ink import RULE, house_style
from dubio.report.lines import draw_key, styled

SPREAD = 0.3  # of a layer's place, over which the methods stand side by side


@house_style()
def draw_rates(
    rates: Mapping[str, Sequence[float]],
    layers: Sequence[str],
    size: Size = (7.0, 3.6),
    *,
    errors: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """Return the dropout rates of several methods over the layers, from the input to the output.

    Args:
        rates: By method, one for each layer; NaN where a method has none.
        layers: What they are called.
        size: In inches.
        errors: Standard errors, by method and layer; bars show one to either side.
    """
    errors = errors or {}
    _check(rates, layers, "rates")
    _check(errors, layers, "errors")
    if unknown := [name for name in errors if name not in rates]:
        raise ValueError(
            f"errors: expected methods among {', '.join(rates)}, got {', '.join(unknown)}; name "
            "them as in rates"
        )
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.set_title("Dropout rates")
    for place, (name, own, style) in enumerate(styled(rates)):
        shift = SPREAD * (place / (len(rates) - 1) - 0.5) if len(rates) > 1 else 0.0
        x = [layer + shift for layer in range(len(layers))]
        axes.errorbar(x, own, errors.get(name), label=name, markersize=5, elinewidth=1.2, **style)
    axes.set_xticks(range(len(layers)), layers)
    axes.set_xlim(-0.5, len(layers) - 0.5)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("layer")
    axes.set_ylabel("dropout rate")
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    draw_key(axes)
    return figure


def _check(values: Mapping[str, Sequence[float]], layers: Sequence[str], name: str) -> None:
    for method, own in values.items():
        if len(own) != len(layers):
            raise ValueError(
                f"{name}: expected one number for each of {len(layers)} layers, got {len(own)} of "
                f"{method}; use NaN for a layer without"
            )
        if wrong := [value for value in own if value < 0 or (name == "rates" and value > 1)]:
            raise ValueError(
                f"{name}: expected {'probabilities' if name == 'rates' else 'numbers >= 0'}, got "
                f"{wrong[0]} of {method}; a logit becomes a rate by a sigmoid"
            )
