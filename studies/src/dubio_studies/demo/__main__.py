"""``python -m dubio_studies.demo``: train two networks, ask dubio, write the page."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from dubio.report.ink import to_png
from dubio_studies.demo.answers import (
    ask_about_curve,
    ask_about_digits,
    ask_about_rotation,
    most_certain,
)
from dubio_studies.demo.figures import draw_band
from dubio_studies.demo.page import render
from dubio_studies.demo.train import observe_curve, split_digits, train_classifier, train_regressor


def run(output: Path, picture: Path | None, steps: int, epochs: int) -> None:
    """Does everything, with a line of progress before every part."""
    start = time.perf_counter()

    def say(what: str) -> None:
        print(f"{time.perf_counter() - start:5.1f} s  {what}", flush=True)

    torch.set_num_threads(1)  # networks this small are faster so
    say("training a dropout regressor on a curve with a gap")
    curve = observe_curve()
    regressor = train_regressor(curve, steps)
    say("training a dropout classifier on 8 × 8 digits")
    digits = split_digits()
    classifier = train_classifier(digits, epochs)
    say("asking dubio about the curve")
    curve_answer = ask_about_curve(regressor, curve)
    say("asking dubio about the digits")
    digits_answer = ask_about_digits(classifier, digits)
    rotation_answer = ask_about_rotation(classifier, most_certain(digits_answer, label=1))
    say("drawing the page")
    page = render(curve, digits, curve_answer, digits_answer, rotation_answer)
    output.write_text(page, encoding="utf-8")
    if picture is not None:
        picture.write_bytes(to_png(draw_band(curve_answer, curve, (9, 3.8))))
        say(f"the picture is {picture}")
    say(f"done: open {output.resolve().as_uri()}")


def main(words: Sequence[str] | None = None, prog: str = "python -m dubio_studies.demo") -> None:
    """The command line."""
    live = "'dubio demo --live' opens a page in the browser that runs trained networks there."
    parser = argparse.ArgumentParser(prog=prog, description=__doc__, epilog=live)
    parser.add_argument("--output", type=Path, default=Path("demo.html"), help="the page to write")
    parser.add_argument("--picture", type=Path, help="also write the predictive band as a PNG")
    parser.add_argument("--steps", type=int, default=2500, help="training steps of the regressor")
    parser.add_argument("--epochs", type=int, default=80, help="epochs of the classifier")
    arguments = parser.parse_args(words)
    for file in filter(None, (arguments.output, arguments.picture)):
        if file.is_dir() or not file.resolve().parent.is_dir():
            parser.error(f"expected a file in a folder that exists, got {file}")
    run(arguments.output, arguments.picture, arguments.steps, arguments.epochs)


if __name__ == "__main__":
    main()
