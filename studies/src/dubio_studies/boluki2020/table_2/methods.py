"""The rows of the table as recommenders."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, final

from dubio import masks
from dubio.recommend import CDAE, DAE, EASE, VAE, Popular, Recommender, evaluate
from dubio.recommend.autoencoder import Autoencoder
from dubio_studies.boluki2020.table_2.linear import SLIM, WMF
from dubio_studies.boluki2020.tasks import Task

MakeAutoencoder: TypeAlias = Callable[..., Autoencoder]


@dataclass(frozen=True)
class AutoencoderTraining:
    """Sizes of the autoencoders, and how they are trained.

    Attributes:
        hidden: Units between items and the latent vector.
        latent: Length of the latent vector; units of DAE and CDAE, and factors of WMF.
        epochs: Passes over the users, at most.
        anneal_epochs: Passes in which β, the weight of the divergence, would rise from 0 to 1.
        patience: Epochs without a better validation after which to stop.
        batch_size: Users in a step.
        learning_rate: Of Adam.
        rate_learning_rate: That for learned dropout rates.
    """

    hidden: int = 600
    latent: int = 200
    epochs: int = 200
    anneal_epochs: int = 200
    patience: int = 30
    batch_size: int = 500
    learning_rate: float = 1e-3
    rate_learning_rate: float = 1e-2


@final
@dataclass(frozen=True, eq=False)
class Fitted:
    """A model, and what was chosen for it on the validation.

    Attributes:
        model: Fitted.
        chosen: Numbers by name.
    """

    model: Recommender
    chosen: Mapping[str, float]


MIXTURE = 3  # masks in the posterior of the authors' code: V = 2
_LEARNED = partial(VAE, mask=masks.LearnableBernoulli)
_VAES: dict[str, MakeAutoencoder] = {
    "sivae-lbdrop": partial(_LEARNED, mixture=MIXTURE),
    "sivae-gdrop": partial(VAE, mask=masks.LearnableGaussian, mixture=MIXTURE),
    "sivae-cdrop": partial(VAE, mask=masks.Concrete, mixture=MIXTURE),
    "vamp-drop": partial(VAE, prior="vamp"),
    "vamp": partial(VAE, prior="vamp", mask=None),
    "iaf-drop": partial(VAE, posterior="iaf"),
    "iaf": partial(VAE, posterior="iaf", mask=None),
    "vae-drop": VAE,
    "vae": partial(VAE, mask=None),
    "vae-drop-mixture": partial(VAE, mixture=MIXTURE),
    "vae-lbdrop": _LEARNED,
}
_DENOISING: dict[str, MakeAutoencoder] = {"dae": DAE, "cdae": CDAE}
_GRIDS: dict[str, tuple[dict[str, float], ...]] = {
    "ease": tuple({"weight_decay": value} for value in (50.0, 150.0, 500.0, 1500.0)),
    "slim": tuple({"alpha": value} for value in (0.005, 0.02, 0.1)),
    "wmf": tuple(
        {"alpha": alpha, "regularization": weight}
        for alpha, weight in ((5.0, 10.0), (20.0, 30.0), (20.0, 100.0), (50.0, 200.0))
    ),
}
NEURAL = (*_VAES, *_DENOISING)
DETERMINISTIC = ("ease", "slim", "popular")


def fit(method: str, task: Task, training: AutoencoderTraining, seed: int) -> Fitted:
    """Fit a row of the table to a task, its settings chosen on the validation."""
    if method in NEURAL:
        return _trained(method, task, training, seed)
    if method == "popular":
        return Fitted(Popular().fit(_all(task)), {})
    return _best_of(method, task, training.latent, seed)


def _trained(method: str, task: Task, training: AutoencoderTraining, seed: int) -> Fitted:
    """Stopped by the validation; fitted again on all interactions where users are the same."""
    model = _autoencoder(method, task, training)
    fit_model = partial(
        model.fit,
        batch_size=training.batch_size,
        learning_rate=training.learning_rate,
        rate_learning_rate=training.rate_learning_rate,
        seed=seed,
        progress=False,
    )
    fit_model(task.train, task.validation, epochs=training.epochs, patience=training.patience)
    best = model.best_epoch
    assert best is not None
    assert best.validation is not None
    if task.whole is not None:
        fit_model(task.whole, epochs=best.epoch)
    return Fitted(model, {"epoch": best.epoch, "beta": best.beta, "validation": best.validation})


def _autoencoder(method: str, task: Task, training: AutoencoderTraining) -> Autoencoder:
    if method in _DENOISING:
        return _DENOISING[method](hidden=training.latent)
    steps = -(-task.train.shape[0] // training.batch_size)
    return _VAES[method](
        hidden=training.hidden,
        latent=training.latent,
        beta=1.0,
        anneal=steps * training.anneal_epochs,
        pseudo_inputs=min(100, task.train.shape[0]),
    )


def _best_of(method: str, task: Task, factors: int, seed: int) -> Fitted:
    """The settings of the highest validation score."""
    metric = task.metrics[-1]

    def score(settings: dict[str, float]) -> float:
        model = _linear(method, settings, factors, seed).fit(task.train)
        return evaluate(model, *task.validation, [metric])[metric]

    scores = [(score(settings), settings) for settings in _GRIDS[method]]
    value, settings = max(scores, key=lambda pair: pair[0])
    model = _linear(method, settings, factors, seed).fit(_all(task))
    return Fitted(model, {**settings, "validation": value})


def _linear(method: str, settings: dict[str, float], factors: int, seed: int) -> Recommender:
    makers: dict[str, Callable[..., Any]] = {
        "ease": EASE,
        "slim": SLIM,
        "wmf": partial(WMF, factors=factors, seed=seed),
    }
    made: Recommender = makers[method](**settings)
    return made


def _all(task: Task) -> Any:
    return task.train if task.whole is None else task.whole
