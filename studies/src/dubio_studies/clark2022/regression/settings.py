"""Settings of the regression, and the pieces of work that they make."""

import math
from dataclasses import dataclass

from dubio.layers.bayesian import Sampler
from dubio.priors import Gaussian, Prior, ScaleMixture
from dubio_studies.framework.study import Piece

MIXING = 0.5  # π of all mixtures
BASE_NOISE = 0.1  # σ_ε but where it is varied
BASE_PRIOR = 1  # −log σ of the Gaussian prior where the noise is varied, figures 8 and 9
BEST_MIXTURE = (1, 6)  # −log σ1 and −log σ2 of the highest lppd in the paper
CURVES = 10  # example draws, figure 10
REPEATS = 3  # of a measurement of time
FEW_UNITS = 4  # arithmetic then takes no time, as on a GPU: only the calls do
RESTARTS = 3  # of some of the networks with the authors' learning rates
MASKED_MEMBERS = 8  # of the ensemble that also predicts with dropout
SHOWN_DATA = 8  # one of so many training data is drawn


@dataclass(frozen=True)
class Config:
    """Settings of the regression.

    Attributes:
        points: Training data, evenly spaced on [0, 0.5].
        batches: Minibatches of an epoch.
        hidden: Units of each of the two hidden layers.
        epochs: Passes over the data, for Bayesian networks and ensembles alike.
        train_draws: Draws of the weights for each gradient.
        learning_rate: Of Adam.
        decay_every: Epochs after which the learning rate is divided by ten, in the networks that
            follow the authors' code in that. In all others it is constant. Of the former, those
            with a restart end after two such periods.
        noises: Standard deviations σ_ε of the likelihood, figures 8 and 9.
        sigmas: −log σ of the Gaussian priors, and −log σ1 of the mixtures.
        spikes: −log σ2 of the mixtures.
        members: Networks of an ensemble.
        drop: Rate of dropout of the second ensemble.
        evaluation_points: Evenly spaced on [−0.5, 1.5].
        draws: Draws of the weights per prediction.
        watch_every: Epochs between two points of a training curve.
        watch_draws: Draws of the weights behind the RMSE of a training curve.
        shown_points: Inputs at which bands and curves are drawn.
        batch_draws: Losses of one minibatch behind their variance.
        timed_epochs: Epochs of each measurement of time.
    """

    points: int = 1024
    batches: int = 8
    hidden: int = 400
    epochs: int = 1500
    train_draws: int = 5
    learning_rate: float = 1e-3
    decay_every: int = 250
    noises: tuple[float, ...] = (0.01, 0.1, 1.0)
    sigmas: tuple[int, ...] = (0, 1, 2)
    spikes: tuple[int, ...] = (6, 7, 8)
    members: int = 25
    drop: float = 0.5
    evaluation_points: int = 1000
    draws: int = 5000
    watch_every: int = 20
    watch_draws: int = 20
    shown_points: int = 101
    batch_draws: int = 200
    timed_epochs: int = 20

    def __post_init__(self) -> None:
        """Refuse what cannot be computed, or would leave a table without its cells."""
        counts = {
            name: getattr(self, name)
            for name in (
                "points",
                "batches",
                "hidden",
                "train_draws",
                "watch_every",
                "timed_epochs",
            )
        }
        for name, count in counts.items():
            if count < 1:
                raise ValueError(f"{name}: expected at least 1, got {count}.")
        if self.members < 2:
            raise ValueError(f"members: expected at least 2, got {self.members}.")
        if self.points % self.batches:
            raise ValueError(
                f"points: expected a multiple of batches, {self.batches}, got {self.points}."
            )
        if self.epochs < max(6, self.watch_every):
            raise ValueError(
                f"epochs: expected at least 6, and watch_every = {self.watch_every}, got "
                f"{self.epochs}."
            )
        if self.decay_every < 3:
            raise ValueError(f"decay_every: expected at least 3, got {self.decay_every}.")
        if min(self.draws, self.batch_draws) < CURVES or self.watch_draws < 1:
            raise ValueError(
                f"draws, batch_draws, watch_draws: expected at least {CURVES}, {CURVES} and 1, got "
                f"{self.draws}, {self.batch_draws} and {self.watch_draws}."
            )
        if min(self.evaluation_points, self.shown_points) < 9:
            raise ValueError(
                f"evaluation_points, shown_points: expected at least 9, got "
                f"{min(self.evaluation_points, self.shown_points)}."
            )
        if BASE_NOISE not in self.noises or min(self.noises) <= 0:
            raise ValueError(
                f"noises: expected positive numbers with {BASE_NOISE} among them, got "
                f"{self.noises}."
            )
        if not {0, 1} <= set(self.sigmas) or 6 not in self.spikes:
            raise ValueError(
                f"sigmas, spikes: expected 0 and 1, and 6, among them, got {self.sigmas} and "
                f"{self.spikes}."
            )
        if not 0 < self.drop < 1:
            raise ValueError(f"drop: expected a rate in (0, 1), got {self.drop}.")
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(
                f"learning_rate: expected a positive number, got {self.learning_rate}."
            )


def pieces(config: Config) -> list[Piece]:
    """A piece for each network, ensemble and measurement of time, and one for the data."""
    ensembles: list[Piece] = [
        {"part": "ensemble", "method": "ensemble", "drop": drop} for drop in (0.0, config.drop)
    ]
    networks = [
        *(gaussian(sigma, BASE_NOISE) for sigma in config.sigmas),
        *(gaussian(BASE_PRIOR, noise) for noise in config.noises if noise != BASE_NOISE),
        *(gaussian(sigma, BASE_NOISE, "local") for sigma in (0, 1)),
        *({**gaussian(sigma, BASE_NOISE), "schedule": "stepped"} for sigma in config.sigmas),
        *(mixture(sigma, spike) for sigma in config.sigmas for spike in config.spikes),
    ]
    times: list[Piece] = [
        {"part": "time", "sampler": sampler, "repeat": repeat}
        for repeat in range(1, REPEATS + 1)
        for sampler in ("weights", "local")
    ]
    plain: list[Piece] = [
        {"part": "plain torch", "sampler": sampler, "kl": kl, "units": units, "repeat": repeat}
        for repeat in range(1, REPEATS + 1)
        for units in (config.hidden, FEW_UNITS)
        for sampler, kl in (("weights", "draws"), ("weights", "exact"), ("local", "exact"))
    ]
    masks: Piece = {"part": "masks", "method": "ensemble", "drop": config.drop}
    return [*networks, *ensembles, *times, masks, *plain, *restarts(config), {"part": "data"}]


def restarts(config: Config) -> list[Piece]:
    """Networks with the authors' learning rates, some of them from several starts.

    Those with Gaussian priors come in addition to one that is trained for all epochs.
    """
    every = range(1, RESTARTS + 1)
    started = [
        *((mixture(sigma, spike), 1) for sigma in config.sigmas for spike in config.spikes),
        *((gaussian(BASE_PRIOR, BASE_NOISE, "local"), n) for n in every),
        *((mixture(*BEST_MIXTURE), n) for n in every[1:]),
        *((gaussian(sigma, BASE_NOISE), n) for n in every[1:] for sigma in config.sigmas),
    ]
    epochs = 2 * config.decay_every
    return [
        {**piece, "schedule": "stepped", "epochs": epochs, "restart": n} for piece, n in started
    ]


def gaussian(sigma: int, noise: float, sampler: Sampler = "weights") -> Piece:
    """A network with the prior N(0, e^(−2·sigma))."""
    return {
        "part": "network",
        "method": "bayes by backprop",
        "prior": "gaussian",
        "sigma": sigma,
        "spike": None,
        "noise": noise,
        "sampler": sampler,
        "schedule": "constant",
    }


def mixture(sigma: int, spike: int) -> Piece:
    """A network with a prior of two Gaussians of standard deviations e^−sigma and e^−spike."""
    return {**gaussian(sigma, BASE_NOISE), "prior": "mixture", "spike": spike}


def prior_of(piece: Piece) -> Prior:
    """The prior of a network."""
    wide = math.exp(-int(str(piece["sigma"])))
    if piece["spike"] is None:
        return Gaussian(wide)
    return ScaleMixture(MIXING, wide, math.exp(-int(str(piece["spike"]))))
