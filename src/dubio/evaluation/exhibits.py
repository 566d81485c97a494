"""The table and plots of an evaluation."""

import math
from collections.abc import Sequence
from functools import partial

from dubio.evaluation.evaluate import Evaluation
from dubio.evaluation.scores import MEASURES, LabelScores, NumberScores
from dubio.metrics import plots
from dubio.report.exhibits import Plot, Table

PHONE = (5.0, 4.6)


def title_of(column: str, draws: int) -> str:
    """Return how a way to ask the network is called in the table."""
    kind, _, calibrated = column.partition("_")
    name = "plain" if kind == "plain" else f"{draws} draws"
    return f"{name}, calibrated" if calibrated else name


def table_of(evaluation: Evaluation) -> Table:
    """Return a table of all numbers, with the best of every row marked."""
    columns = list(evaluation.scores)
    rows = []
    for metric, values in evaluation.numbers.items():
        measure = MEASURES[metric]
        shown = {column: f"{value:.4g}" for column, value in values.items()}
        distance = {column: measure.distance(float(text)) for column, text in shown.items()}
        least = min((d for d in distance.values() if not math.isnan(d)), default=math.nan)
        if len(set(shown.values())) > 1:
            shown |= {c: f"**{shown[c]}**" for c, d in distance.items() if d == least}
        rows.append([measure.title, *(shown.get(column, "–") for column in columns), measure.wish])
    heads = [title_of(column, evaluation.draws) for column in columns]
    return Table("All metrics", ["metric", *heads, "better"], rows, note=_note(evaluation))


def _note(evaluation: Evaluation) -> str:
    text = "Plain is one pass in eval mode, without noise. The best of every row is bold"
    accuracy = evaluation.numbers.get("accuracy", {}).get("draws")
    if accuracy is None:
        return f"{text}; on few rows small differences may be chance."
    error = math.sqrt(accuracy * (1 - accuracy) / evaluation.rows)
    return f"{text}; the standard error of an accuracy on these rows is about {error:.2g}."


def plots_of(evaluation: Evaluation) -> Sequence[Plot]:
    """Return the drawings that fit the targets."""
    labels, numbers = {}, {}
    for column, scores in evaluation.scores.items():
        if isinstance(scores, LabelScores):
            labels[title_of(column, evaluation.draws)] = scores
        elif isinstance(scores, NumberScores):
            numbers[title_of(column, evaluation.draws)] = scores
    return _plots_of_labels(labels) if labels else _plots_of_numbers(numbers)


def _plots_of_labels(columns: dict[str, LabelScores]) -> Sequence[Plot]:
    reliability = {name: scores.reliability.compute() for name, scores in columns.items()}
    risk = {name: scores.risk_coverage.compute() for name, scores in columns.items()}
    pavgpu = {name: scores.pavgpu.compute() for name, scores in columns.items()}
    by_entropy = {name: scores.accuracy_by_entropy.compute() for name, scores in columns.items()}
    histograms = [
        Plot(
            f"entropies-{name.replace(' ', '-')}",
            f"Entropies, {name}",
            f"Histograms of the entropy of right and wrong answers, {name}",
            partial(plots.draw_entropies, scores.entropies()),
            (12, 4),
            PHONE,
            "Wrong answers, and foreign inputs if there are any, should have more than right ones.",
        )
        for name, scores in columns.items()
        if "calibrated" not in name
    ]
    return [
        Plot(
            "reliability",
            "Does confidence come true?",
            "Accuracy over confidence, in bins, with the share of cases in each",
            partial(plots.draw_reliability, reliability),
            (12, 6),
            (5, 5.6),
            "On the diagonal, of all answers given with 80 % confidence 80 % are right. Below it "
            "the network is too bold, above it too timid.",
        ),
        Plot(
            "risk-coverage",
            "What if the doubtful cases are left to someone else?",
            "Error of the least doubtful cases over their share",
            partial(plots.draw_risk_coverage, risk),
            (12, 4.6),
            PHONE,
            "Cases are left out by their entropy, the largest first.",
        ),
        Plot(
            "pavgpu",
            "Accurate where certain, uncertain where wrong?",
            "PAvgPU and its two parts over the threshold of the entropy",
            partial(plots.draw_pavgpu, pavgpu),
            (12, 4.2),
            (5, 9),
        ),
        Plot(
            "accuracy-by-entropy",
            "Does doubt come before errors?",
            "Accuracy of answers of similar entropy",
            partial(plots.draw_accuracy_by_entropy, by_entropy),
            (12, 4.6),
            PHONE,
        ),
        *histograms,
    ]


def _plots_of_numbers(columns: dict[str, NumberScores]) -> Sequence[Plot]:
    quantiles = {name: scores.quantiles.compute() for name, scores in columns.items()}
    risk = {name: scores.risk_coverage() for name, scores in columns.items()}
    return [
        Plot(
            "quantiles",
            "Do quantiles come true?",
            "Share of targets below each quantile over its level",
            partial(plots.draw_quantile_calibration, quantiles),
            (9, 6),
            PHONE,
            "On the diagonal, 10 % of the targets are below the quantile of level 10 %.",
        ),
        Plot(
            "risk-coverage",
            "What if the doubtful cases are left to someone else?",
            "Mean absolute error of the least doubtful targets over their share",
            partial(plots.draw_risk_coverage, risk),
            (12, 4.6),
            PHONE,
            "The risk is the mean absolute error. Targets are left out by their standard "
            "deviation, the largest first; where all have the same, the line is level.",
        ),
    ]
