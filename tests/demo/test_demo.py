"""The demo at a reduced size: the page stands alone and says what its networks show."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from dubio.report import ink
from dubio_studies.demo import answers, page, train
from dubio_studies.demo.figures import draw_band


@dataclass(frozen=True, repr=False)
class Story:
    curve: train.Curve
    curve_answer: answers.CurveAnswer
    digits_answer: answers.DigitsAnswer
    rotation_answer: answers.RotationAnswer
    html: str


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def story(one_thread: None) -> Story:
    curve = train.observe_curve()
    regressor = train.train_regressor(curve, steps=800)
    curve_answer = answers.ask_about_curve(regressor, curve, draws=200)
    digits = train.split_digits()
    classifier = train.train_classifier(digits, epochs=15)
    digits_answer = answers.ask_about_digits(classifier, digits, draws=50)
    one = answers.most_certain(digits_answer, label=1)
    rotation_answer = answers.ask_about_rotation(classifier, one, draws=50)
    html = page.render(curve, digits, curve_answer, digits_answer, rotation_answer)
    return Story(curve, curve_answer, digits_answer, rotation_answer, html)


def test_the_band_widens_away_from_the_data(story: Story) -> None:
    answer = story.curve_answer
    at_data = answer.std[answer.at_data].mean()
    assert answer.std[answer.in_gap].mean() > 1.3 * at_data
    assert answer.std[answer.outside].mean() > 2 * at_data


def test_the_two_parts_make_up_the_band(story: Story) -> None:
    answer = story.curve_answer
    np.testing.assert_allclose(answer.epistemic, answer.functions.std(axis=0), rtol=1e-4)
    assert np.ptp(answer.aleatoric) == 0
    assert 0.5 * train.NOISE < answer.aleatoric[0] < 2 * train.NOISE


def test_doubt_grows_when_the_one_is_turned(story: Story) -> None:
    answer = story.rotation_answer
    assert answer.predicted[0] == 1
    assert answer.mutual_information.max() > 5 * answer.mutual_information[0]


def test_deferring_the_uncertain_raises_accuracy(story: Story) -> None:
    kept = story.digits_answer.kept_accuracy
    assert kept[-1] > 0.9
    assert kept[round(0.9 * len(kept)) - 1] > kept[-1]
    assert np.all(np.diff(story.digits_answer.mutual_information) >= 0)


def test_the_page_needs_nothing_else(story: Story) -> None:
    assert not re.search(r"https?:|//[a-z]|@import|<script|\burl\((?!#)", story.html)
    sources = re.findall(r'(?:src|href)="([^"]*)"', story.html)
    assert all(source.startswith(("data:", "#")) for source in sources)


def test_the_page_is_whole(story: Story) -> None:
    assert "$" not in story.html
    for name in ("band wide", "band narrow", "functions", "split", "rotation wide", "deferral"):
        assert f'<svg class="{name}"' in story.html
    assert story.html.count('<img class="digit"') == 2 * page.IN_GALLERY
    assert len(story.html) < 3_000_000


def test_drawings_leave_colours_to_the_page(story: Story) -> None:
    for drawing in re.findall(r"<svg.*?</svg>", story.html, flags=re.DOTALL):
        assert not re.search(r"(?:fill|stroke): #[0-9a-f]{6}", drawing)
    for name in ink.PALETTE:
        assert story.html.count(f"--{name}: #") == 2


def test_identifiers_are_unique(story: Story) -> None:
    identifiers = re.findall(r' id="([^"]+)"', story.html)
    assert len(identifiers) == len(set(identifiers))


def test_the_picture_is_small(story: Story) -> None:
    picture = ink.to_png(draw_band(story.curve_answer, story.curve, (9, 3.8)))
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 200_000


def test_the_command_line(tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    finished = subprocess.run(
        [
            *(sys.executable, "-W", "error", "-m", "dubio_studies.demo", "--output", str(output)),
            *("--steps", "20", "--epochs", "1"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    assert output.resolve().as_uri() in finished.stdout
    assert output.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_level_curve_hides_the_gap(one_thread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says so, and means the network at its full size."""
    monkeypatch.setattr(train, "true_curve", lambda x: 0.6 * x * torch.sin(1.6 * x))
    curve = train.observe_curve()
    answer = answers.ask_about_curve(train.train_regressor(curve), curve, draws=200)
    at_data = answer.epistemic[answer.at_data].mean()
    assert answer.epistemic[answer.in_gap].mean() < at_data
    assert answer.epistemic[answer.outside].mean() > 2 * at_data
