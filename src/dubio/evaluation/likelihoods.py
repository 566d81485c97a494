"""Likelihoods by name: ``categorical``, ``gaussian=4.0``."""

from collections.abc import Callable

from dubio.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Laplace,
    Likelihood,
    MultivariateGaussian,
    NegativeBinomial,
    Poisson,
    StudentT,
)

NAMES = (
    "categorical, bernoulli (or categorical=probabilities, bernoulli=probabilities for a network "
    "that ends in a softmax or sigmoid), gaussian=PRECISION, heteroscedastic, student-t=DEGREES, "
    "laplace, multivariate, poisson, negative-binomial"
)
_PLAIN: dict[str, Callable[[], Likelihood]] = {
    "heteroscedastic": HeteroscedasticGaussian,
    "laplace": Laplace,
    "multivariate": MultivariateGaussian,
    "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
}


def parse_likelihood(text: str) -> Likelihood:
    """Return the likelihood of a name; a value may follow after ``=``."""
    name, _, value = text.partition("=")
    if name in ("categorical", "bernoulli") and value in ("", "logits", "probabilities"):
        outputs = "probabilities" if value == "probabilities" else "logits"
        return Categorical(outputs=outputs) if name == "categorical" else Bernoulli(outputs)  # type: ignore[arg-type]
    if name in _PLAIN and not value:
        return _PLAIN[name]()
    if name == "gaussian":
        return _with_number(text, Gaussian, "PRECISION with a number > 0, 1 / (noise variance)")
    if name == "student-t":
        return _with_number(text, StudentT, "DEGREES with a number > 1, of freedom")
    raise ValueError(f"expected {NAMES}; got {text!r}")


def _with_number(text: str, make: Callable[[float], Likelihood], wanted: str) -> Likelihood:
    name, _, value = text.partition("=")
    try:
        return make(float(value))
    except ValueError:
        raise ValueError(f"expected {name}={wanted}, got {text!r}") from None
