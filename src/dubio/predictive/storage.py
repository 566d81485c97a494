"""Save predictions as plain data: the draws, and the likelihood's settings."""

import os
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dubio import likelihoods, plain_files
from dubio.likelihoods import Likelihood
from dubio.predictive.settings import settings_of

_FORMAT = "dubio.Predictive"
_VERSION = 1
_KINDS: dict[str, type[Likelihood]] = {
    kind.__name__: kind
    for kind in (
        likelihoods.Bernoulli,
        likelihoods.Categorical,
        likelihoods.Gaussian,
        likelihoods.HeteroscedasticGaussian,
        likelihoods.Laplace,
        likelihoods.Multinomial,
        likelihoods.MultivariateGaussian,
        likelihoods.NegativeBinomial,
        likelihoods.Point,
        likelihoods.Poisson,
        likelihoods.StudentT,
    )
}


def write(file: str | os.PathLike[str], likelihood: Likelihood, draws: Tensor) -> None:
    """Give a file this content in one go.

    Args:
        file: Its path; a file that is there is replaced.
        likelihood: One of `dubio.likelihoods` that does not learn.
        draws: `(S, B, ...)`.
    """
    settings = settings_of(likelihood)
    if type(likelihood) not in _KINDS.values() or settings is None:
        raise TypeError(
            f"save: expected a likelihood of dubio.likelihoods, got {likelihood!r}, whose code no "
            "file of plain data holds; save p.draws with torch.save, and make the prediction anew "
            "with Predictive.from_draws(likelihood, draws)"
        )
    content = BytesIO()
    saved = {
        "format": _FORMAT,
        "version": _VERSION,
        "likelihood": type(likelihood).__name__,
        "settings": {name: _plain(value) for name, value in settings.items()},
        "draws": _plain(draws),
    }
    torch.save(saved, content)
    plain_files.replace(Path(file), content)


def read(file: str | os.PathLike[str]) -> tuple[Likelihood, Tensor]:
    """Return the likelihood and the draws in a file. No code in it is run."""
    path = Path(file)
    if not path.is_file():
        raise FileNotFoundError(
            f"file: expected one that Predictive.save wrote, got {path}; check the path"
        )
    try:
        found = plain_files.load(path)
    except Exception as error:  # whatever bytes may bring about
        raise _unreadable(path, type(error).__name__) from error
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise _unreadable(path, "it holds something else")
    version = found.get("version")
    if version != _VERSION:
        raise ValueError(
            f"file: expected version {_VERSION} of {_FORMAT}, got {path} of version {version!r}; "
            "load it with the dubio that wrote it, or a later one"
        )
    try:
        likelihood = _KINDS[found["likelihood"]](**found["settings"])
        draws = found["draws"]
        if not isinstance(draws, Tensor):
            raise TypeError(f"draws: expected a tensor, got {type(draws).__name__}")
        likelihood.check(draws)
    except Exception as error:  # whatever was written there
        raise _unreadable(path, repr(error)) from error
    return likelihood, draws


def _plain(value: Any) -> Any:
    """Return a tensor on the CPU without its graph, copied out of any larger storage."""
    return value.detach().cpu().clone() if isinstance(value, Tensor) else value


def _unreadable(path: Path, reason: str) -> ValueError:
    return ValueError(
        f"file: expected one that Predictive.save wrote, got {path}, which cannot be read "
        f"({reason}); restore a copy, or predict again"
    )
