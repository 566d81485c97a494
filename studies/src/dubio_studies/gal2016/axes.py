"""Names of axes that figure 2, figure 3 and the solar study share."""

from matplotlib.figure import Figure


def name_axes(figure: Figure, quantity: str) -> None:
    """Both axes of all panels; data have mean zero and deviation one."""
    figure.supxlabel("date, in standard deviations of the data's dates", fontsize=10)
    figure.supylabel(f"{quantity}, in standard deviations", fontsize=10)
