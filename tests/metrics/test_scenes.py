"""Strips of scenes: every pixel has the colour of its label, its entropy or its error."""

import math
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from torch import Tensor

from dubio import metrics
from dubio.data.scenes import Scenes
from dubio.likelihoods import Bernoulli, Categorical
from dubio.predictive.predictive import Predictive, StoredDraws
from dubio.report import ink
from dubio.report.scenes import TITLES, VOID, Scene, class_colours, draw_strips
from metric_references import seeded

K, NOTHING = 4, 9
GREY = to_rgb(VOID)
DRAWS = (3 * torch.randn(5, 2, K, 6, 8, generator=seeded(0), dtype=torch.float64)).softmax(2)
DRAWS[:, 0, :, 0, 0] = torch.eye(K)[[0, 0, 0, 1, 1]]  # draws that disagree
DRAWS[:, 0, :, 0, 1] = torch.full((K,), 0.25)  # the largest entropy, of which all draws are sure
DRAWS[:4, 0, :, 0, 2] = torch.eye(K)  # mutual information beyond the scale: about log 4
LABELS = torch.randint(K, (2, 6, 8), generator=seeded(1))
LABELS[:, 4:] = NOTHING
IMAGES = torch.randint(256, (2, 3, 6, 8), generator=seeded(2), dtype=torch.uint8)
draw = metrics.plots.draw_scenes


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.images]


def pictures(figure: Figure) -> dict[tuple[int, str], np.ndarray[Any, Any]]:
    """What is drawn, by row and title of a wide figure."""
    shown = panels(figure)
    titles = [title for axes in shown if (title := axes.get_title(loc="left"))]
    found = [np.asarray(axes.images[0].get_array()) for axes in shown]
    return {(n // len(titles), titles[n % len(titles)]): one for n, one in enumerate(found)}


def naive_pixel(title: str, row: int, i: int, j: int) -> tuple[float, ...]:
    """The colour of one pixel, from the definitions."""
    colours, heat = class_colours(K), mpl.colormaps["magma"]
    probabilities = DRAWS[:, row, :, i, j].tolist()
    mean = np.mean(probabilities, 0)
    truth, guess = int(LABELS[row, i, j]), int(np.argmax(mean))

    def entropy(p: Any) -> float:
        return -sum(x * math.log(x) for x in p if x > 0)

    if title == "image":
        return tuple(float(IMAGES[row, c, i, j]) / 255 for c in range(3))
    if truth == NOTHING:
        return GREY
    if title in ("truth", "prediction"):
        return tuple(colours[truth if title == "truth" else guess])
    if title == "errors":
        return tuple(heat(0.0)[:3]) if truth == guess else to_rgb(ink.VERMILION)
    if title == "entropy":
        return tuple(heat(min(1.0, entropy(mean) / math.log(K)))[:3])
    information = entropy(mean) - float(np.mean([entropy(p) for p in probabilities]))
    return tuple(heat(min(1.0, max(0.0, information) / math.log(2)))[:3])


def test_every_pixel() -> None:
    found = pictures(draw(IMAGES, DRAWS, LABELS, void=NOTHING))
    assert list(found) == [(row, title) for row in range(2) for title in TITLES]
    for (row, title), picture in found.items():
        for i in range(6):
            for j in range(8):
                expected = naive_pixel(title, row, i, j)
                np.testing.assert_allclose(picture[i, j], expected, atol=0.02, err_msg=title)


@pytest.mark.parametrize(
    "images", [IMAGES.double() / 255, (IMAGES.float() / 255).requires_grad_()]
)  # fmt: skip
def test_all_forms_of_a_prediction_look_the_same(images: Tensor) -> None:
    likelihood = Categorical(dim=1, void=NOTHING)
    p = Predictive(likelihood, StoredDraws(DRAWS.clamp(min=1e-9).log()))
    expected = pictures(draw(IMAGES, DRAWS, LABELS, void=NOTHING))
    for key, picture in pictures(draw(images, p, LABELS)).items():
        np.testing.assert_allclose(picture, expected[key], atol=0.02)
    averaged = pictures(draw(images, DRAWS.mean(0), LABELS, void=NOTHING))
    assert {title for _, title in averaged} == set(TITLES) - {"mutual information"}
    for key, picture in averaged.items():
        np.testing.assert_allclose(picture, expected[key], atol=0.02)


def test_two_classes_of_a_bernoulli() -> None:
    p = Predictive(Bernoulli(), StoredDraws(torch.randn(3, 2, 6, 8, generator=seeded(3))))
    assert len(panels(draw(IMAGES, p, LABELS.clamp(max=1)))) == 12


def test_scales_are_the_same_for_any_prediction() -> None:
    for draws in (DRAWS, DRAWS.mean(0, keepdim=True)):
        bars = draw(IMAGES, draws, LABELS, void=NOTHING).axes[12:]
        assert [axes.get_xlim() for axes in bars] == [(0, math.log(K)), (0, math.log(2))]
        texts = [[text.get_text() for text in axes.get_xticklabels()] for axes in bars]
        assert texts == [["0", "log 4 = 1.39 nats"], ["0", "≥ log 2 = 0.69 nats"]]


def legend(figure: Figure) -> dict[str, tuple[float, ...]]:
    [key] = figure.legends
    names = [text.get_text() for text in key.get_texts()]
    colours = [to_rgb(patch.get_facecolor()) for patch in key.get_patches()]
    return dict(zip(names, colours, strict=True))


def test_the_legend_has_the_classes_that_are_seen() -> None:
    sure = torch.eye(K)[torch.tensor([0, 3])].reshape(2, K, 1, 1).expand(2, K, 6, 8)
    truth = torch.tensor([0, 2]).reshape(2, 1, 1).repeat(1, 6, 8)
    names, colours = ["sky", "road", "car", "tree"], ["#ff0000", "blue", (0, 1, 0), "black"]
    found = legend(draw(IMAGES, sure, truth, classes=names, colours=colours))
    assert found == {"sky": (1, 0, 0), "car": (0, 1, 0), "tree": (0, 0, 0)}
    truth[0, 0] = NOTHING
    assert legend(draw(IMAGES, sure, truth, void=NOTHING))["void"] == GREY
    assert list(legend(draw(IMAGES, sure, truth, void=NOTHING))) == ["0", "2", "3", "void"]


@pytest.mark.parametrize("width", [5.0, 12.0])
def test_nothing_overlaps_or_is_cut_off(width: float) -> None:
    names = ["a long name of a class", "b", "c", "d"]
    figure = draw(IMAGES, DRAWS, LABELS, void=NOTHING, classes=names, width=width)
    assert ink.to_png(figure, dots_per_inch=40).startswith(b"\x89PNG")
    assert "<image" in ink.to_svg(figure, "scenes", "strips")
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    boxes.append(figure.legends[0].get_window_extent())
    page = figure.bbox.padded(1)
    for n, box in enumerate(boxes):
        assert page.containsx(box.x0) and page.containsx(box.x1), n  # noqa: PT018
        assert page.containsy(box.y0) and page.containsy(box.y1), n  # noqa: PT018
        assert not any(box.padded(-1).overlaps(other.padded(-1)) for other in boxes[:n]), n
    lefts = {round(axes.get_position().x0, 6) for axes in panels(figure)}
    assert len(lefts) == (2 if width < ink.NARROW else 6)


@pytest.mark.parametrize("classes", [1, 2, 11, 18, 40])
def test_colours_of_classes_differ_and_are_not_grey(classes: int) -> None:
    palette = class_colours(classes)
    assert len({tuple(colour) for colour in palette}) == classes
    assert (np.ptp(palette, axis=1) > 0.1).all()


def test_colours_of_camvid() -> None:
    palette = np.array([to_rgb(colour) for colour in Scenes.colours])
    assert len(palette) == len(Scenes.classes)
    near = [np.abs(a - b).sum() for n, a in enumerate(palette) for b in palette[:n]]
    assert min(near) > 0.3
    assert (np.ptp(palette, axis=1) > 0.2).all()


def test_nothing_is_left_changed() -> None:
    arguments = [IMAGES.clone(), DRAWS.clone(), LABELS.clone()]
    draw(*arguments, void=NOTHING)
    for found, before in zip(arguments, (IMAGES, DRAWS, LABELS), strict=True):
        assert torch.equal(found, before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw(IMAGES[:1], DRAWS, LABELS, void=9), r"images: expected .*\(2, 3, 6, 8\)"),
        (lambda: draw(IMAGES[:, :1], DRAWS, LABELS, void=9), r"images: .*expand\(-1, 3, -1, -1\)"),
        (lambda: draw(IMAGES.numpy(), DRAWS, LABELS, void=9), "images: .* got ndarray"),
        (lambda: draw(IMAGES.float(), DRAWS, LABELS, void=9), r"images: .* from 0 to 25\d; undo"),
        (lambda: draw(IMAGES / 255 - 0.5, DRAWS, LABELS, void=9), "images: .* from -0.5 to"),
        (lambda: draw(IMAGES * math.nan, DRAWS, LABELS, void=9), "images: .* from nan"),
        (lambda: draw(IMAGES.long(), DRAWS, LABELS, void=9), "images: .* got torch.int64"),
        (lambda: draw(IMAGES, DRAWS, LABELS), "target: expected class labels from 0 to 3, got 9"),
        (lambda: draw(IMAGES, DRAWS, LABELS[:, 1:], void=9), "y: expected shape"),
        (lambda: draw(IMAGES, DRAWS.log(), LABELS, void=9), r"prediction: .*softmax\(2\)"),
        (lambda: draw(IMAGES, DRAWS[0].log(), LABELS, void=9), "prediction: expected prob"),
        (lambda: draw(IMAGES, torch.full((2, 4), 0.25), LABELS[:, 0, 0]), "target: .*label maps"),
        (lambda: draw(IMAGES, DRAWS, LABELS, void=9, classes=["a"]), "classes: expected 4 names"),
        (lambda: draw(IMAGES, DRAWS, LABELS, void=9, colours=["red"]), "colours: .* of 4 classes"),
        (lambda: draw_strips([], ["a"]), "scenes: expected at least one"),
    ],
)  # fmt: skip
def test_errors_say_what_to_do(call: Callable[[], Figure], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_scenes_of_two_sizes() -> None:
    def scene(*size: int) -> Scene:
        zeros = np.zeros(size)
        labels = zeros.astype(int)
        return Scene(np.zeros((*size, 3)), labels, labels, labels == 0, zeros, None)

    draw_strips([scene(2, 3), scene(2, 3)], ["a"])
    with pytest.raises(ValueError, match=r"all of one size .* got 2 of 2 kinds"):
        draw_strips([scene(2, 3), scene(3, 2)], ["a"])


def test_colours_of_information_end_where_they_are_told_to() -> None:
    flat = np.zeros((2, 3), dtype=int)
    scene = Scene(
        np.zeros((2, 3, 3)),
        flat,
        flat,
        np.ones((2, 3), bool),
        np.zeros((2, 3)),
        np.full((2, 3), 0.01),
    )
    figures = [draw_strips([scene], ["a", "b"], most_information=most) for most in (0.01, 0.02)]
    place = TITLES.index("mutual information")
    full, half = (figure.axes[place].images[0].get_array()[0, 0] for figure in figures)
    assert full.sum() > half.sum() > 0
    labels = [text.get_text() for axes in figures[0].axes for text in axes.get_xticklabels()]
    assert "≥ 0.01 nats" in labels
    with pytest.raises(ValueError, match="most_information: expected a number > 0"):
        draw_strips([scene], ["a", "b"], most_information=0.0)
