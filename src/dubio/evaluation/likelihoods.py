"""Likelihoods by name: ``categorical``, ``gaussian=4.0``."""

from dubio.likelihoods import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian, Likelihood

NAMES = (
    "categorical, bernoulli (or categorical=probabilities, bernoulli=probabilities for a network "
    "that ends in a softmax or sigmoid), gaussian=PRECISION, heteroscedastic"
)


def parse_likelihood(text: str) -> Likelihood:
    """The likelihood of that name; what follows a ``=`` is its value."""
    name, _, value = text.partition("=")
    if name in ("categorical", "bernoulli") and value in ("", "logits", "probabilities"):
        outputs = "probabilities" if value == "probabilities" else "logits"
        return Categorical(outputs=outputs) if name == "categorical" else Bernoulli(outputs)  # type: ignore[arg-type]
    if name == "heteroscedastic" and not value:
        return HeteroscedasticGaussian()
    if name == "gaussian":
        try:
            return Gaussian(float(value))
        except ValueError:
            raise ValueError(
                f"expected gaussian=PRECISION with a number > 0, 1 / (noise variance), got {text!r}"
            ) from None
    raise ValueError(f"expected {NAMES}; got {text!r}")
