"""Deviations while networks are trained as the authors did, at several widths.

From Caffe's initial weights the function moves in proportion to learning rate times width. So
narrower networks have a higher learning rate, and an iteration takes all of them about as far.
"""

from collections.abc import Generator, Mapping
from dataclasses import replace

from torch import Tensor, nn

from dubio import NonFiniteError
from dubio_studies.framework.study import Measurement, Piece
from dubio_studies.gal2016.curves import (
    PUBLISHED_WIDTH,
    Config,
    PublishedNetwork,
    mc_dropout,
    stages,
)

STOPS = 20
HOPELESS = 1e6  # a loss; targets have variance 1

Courses = Mapping[str, Mapping[int, float]]
"""By model: widths over the config's, and for each the iterations over the config's."""


def course_pieces(config: Config, courses: Courses) -> list[Piece]:
    """A piece for each course; none if all networks are trained as the authors did."""
    if config.optimizer == "caffe":
        return []
    return [
        {
            "model": model,
            "restart": 1,
            "width": times * config.width,
            "iterations": max(1, round(share * config.iterations)),
        }
        for model, shares in courses.items()
        for times, share in shares.items()
    ]


def is_course(piece: Piece) -> bool:
    """Whether a piece is one of `course_pieces`."""
    return "width" in piece


def course(
    config: Config, piece: Piece, kind: PublishedNetwork, data: tuple[Tensor, Tensor], away: Tensor
) -> Generator[Measurement, None, nn.Sequential | None]:
    """A row for every stop; returns the network, unless it diverged.

    The value of a row is the loss. Its other fields are the error of the mean and the deviations,
    root mean squares over the data and over the inputs away from them.
    """
    width, iterations = (int(piece[name]) for name in ("width", "iterations"))  # type: ignore[arg-type]
    config = replace(
        config,
        width=width,
        iterations=iterations,
        optimizer="caffe",
        spread=False,
        steepness=1.0,
    )
    kind = replace(kind, learning_rate=kind.learning_rate * PUBLISHED_WIDTH / width)
    draws = max(2, config.draws // 20)
    model, reached = None, 0
    try:
        for stage in stages(config, kind, *data, STOPS):
            model, reached = stage.model, stage.iteration
            loss = sum(stage.losses) / len(stage.losses)
            if loss > HOPELESS:
                yield {"metric": "diverged", "value": reached}
                return None
            on_data = mc_dropout(model, data[0], draws)
            yield {
                "metric": "course",
                "iteration": reached,
                "value": loss,
                "rmse": rms(on_data.mean - data[1]),
                "on_data": rms(on_data.std),
                "away": rms(mc_dropout(model, away, draws).std),
            }
    except NonFiniteError as error:
        yield {"metric": "diverged", "value": reached + error.epoch}
        return None
    return model


def rms(values: Tensor) -> float:
    """Root mean square."""
    return float(values.square().mean().sqrt())
