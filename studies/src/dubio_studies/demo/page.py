"""The page of the demo: figures and numbers set into one HTML file that needs no other."""

from importlib.metadata import version
from importlib.resources import files
from string import Template

import numpy as np

from dubio.report.ink import stylesheet, to_address, to_svg
from dubio_studies.demo.answers import ANGLES, CurveAnswer, DigitsAnswer, RotationAnswer
from dubio_studies.demo.figures import (
    draw_band,
    draw_deferral,
    draw_functions,
    draw_rotation,
    draw_split,
)
from dubio_studies.demo.train import NOISE, Curve, SmallDigits

IN_GALLERY = 12
HALF = (5.6, 3.7)


def render(
    curve: Curve,
    digits: SmallDigits,
    curve_answer: CurveAnswer,
    digits_answer: DigitsAnswer,
    rotation_answer: RotationAnswer,
) -> str:
    """The whole page as HTML."""
    return template("page.html").substitute(
        css=stylesheet() + template("page.css").substitute(),
        dubio_version=version("dubio"),
        torch_version=version("torch"),
        **curve_section(curve_answer, curve),
        **rotation_section(rotation_answer),
        **digits_section(digits_answer, digits),
    )


def curve_section(answer: CurveAnswer, curve: Curve) -> dict[str, str]:
    """What the section on the curve shows and says."""
    about = "Predicted curve; its band is narrow at the data and wide in the gap and outside"
    return {
        "observations": str(len(curve.x)),
        "held_out": str(len(curve.held_out_x)),
        "curve_draws": str(len(answer.functions)),
        "at_data": f"{answer.epistemic[answer.at_data].mean():.2f}",
        "in_gap": f"{answer.epistemic[answer.in_gap].mean():.2f}",
        "outside": f"{answer.epistemic[answer.outside].mean():.2f}",
        "noise": f"{answer.aleatoric.mean():.2f}",
        "true_noise": f"{NOISE:.2f}",
        "band": to_svg(draw_band(answer, curve, (12, 4.8)), "band wide", about)
        + to_svg(draw_band(answer, curve, (5, 4.4)), "band narrow", about),
        "functions": to_svg(
            draw_functions(answer, curve, HALF), "functions", "Thirty functions through the data"
        ),
        "split": to_svg(
            draw_split(answer, curve, HALF), "split", "Epistemic and aleatoric standard deviation"
        ),
    }


def rotation_section(answer: RotationAnswer) -> dict[str, str]:
    """What the section on the turning digit shows and says."""
    about = "Scatter of class scores of a digit 1 in twelve positions, before and after the softmax"
    draws = len(answer.scores)
    votes = np.rint(draws * (1 - answer.variation_ratio)).astype(int)
    peak = int(answer.mutual_information.argmax())
    return {
        "draws": str(draws),
        "upright_votes": str(votes[0]),
        "upright_class": str(answer.predicted[0]),
        "peak_angle": str(ANGLES[peak]),
        "peak_information": f"{answer.mutual_information[peak]:.2f}",
        "peak_votes": str(votes[peak]),
        "last_angle": str(ANGLES[-1]),
        "last_class": str(answer.predicted[-1]),
        "last_information": f"{answer.mutual_information[-1]:.2f}",
        "rotation": to_svg(draw_rotation(answer, (12, 8.8)), "rotation wide", about)
        + to_svg(draw_rotation(answer, (5, 8)), "rotation narrow", about),
    }


def digits_section(answer: DigitsAnswer, digits: SmallDigits) -> dict[str, str]:
    """What the sections on the test digits show and say."""
    total = len(answer.labels)
    least = range(total - 1, total - 1 - IN_GALLERY, -1)
    most = range(IN_GALLERY)
    about = "Accuracy on the digits that are kept, against the share that is deferred"
    return {
        "train_size": str(len(digits.train_images)),
        "test_size": str(total),
        "wrong_least": str(int((~answer.correct[list(least)]).sum())),
        "wrong_most": str(int((~answer.correct[list(most)]).sum())),
        "least_certain": "\n".join(gallery_card(answer, row) for row in least),
        "most_certain": "\n".join(gallery_card(answer, row) for row in most),
        "deferral": to_svg(draw_deferral(answer, HALF), "deferral", about),
        "accuracy": f"{answer.kept_accuracy[-1]:.1%}",
        "deferred_accuracy": f"{answer.kept_accuracy[round(0.9 * total) - 1]:.1%}",
        "log_likelihood": minus(f"{answer.log_likelihood:.3f}"),
        "plain_accuracy": f"{answer.plain_accuracy:.1%}",
        "plain_log_likelihood": minus(f"{answer.plain_log_likelihood:.3f}"),
    }


def gallery_card(answer: DigitsAnswer, row: int) -> str:
    """One digit: image, what it is read as, mutual information and the votes of the draws."""
    read, label = int(answer.predicted[row]), int(answer.labels[row])
    truth = "" if read == label else f"<em>is {label}</em>"
    information = answer.mutual_information[row]
    votes = answer.votes[row]
    nats = f"{information:.3f} nats" if information >= 0.001 else "&lt; 0.001 nats"
    read_first = sorted(np.flatnonzero(votes).tolist(), key=lambda k: (k != read, -votes[k]))
    bar = "".join(
        f'<span style="flex:{votes[k]}" title="{votes[k]} draws say {k}">'
        f"{k if votes[k] > 0.08 * votes.sum() else ''}</span>"
        for k in read_first
    )
    return (
        f'<li class="{"right" if read == label else "wrong"}">'
        f'<img class="digit" alt="a handwritten {label}" src="{to_address(answer.images[row])}">'
        f'<div class="verdict"><span>reads {read}</span>{truth}</div>'
        f'<div class="information">{nats}</div>'
        f'<div class="votes">{bar}</div></li>'
    )


def template(name: str) -> Template:
    """A file of this package as a template."""
    return Template(files("dubio_studies.demo").joinpath(name).read_text(encoding="utf-8"))


def minus(number: str) -> str:
    """The number with a true minus sign."""
    return number.replace("-", "−")
