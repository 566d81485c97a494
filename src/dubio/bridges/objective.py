"""Helpers for other libraries' training loops: checks, numbers to log, a score."""

from typing import Any

import torch
from torch import Tensor, nn

from dubio.masks.mask import Mask
from dubio.objectives.elbo import ELBO
from dubio.predictive.predictive import Predictive


def check_objective(elbo: Any) -> None:
    """Raise an error unless this is an ELBO whose random numbers a checkpoint can keep."""
    if not isinstance(elbo, ELBO):
        raise TypeError(
            f"elbo: expected a dubio.ELBO, got {type(elbo).__name__}; make one with "
            f"dubio.ELBO(network, likelihood, num_data=len(train_dataset))"
        )
    if elbo.generator is not None:
        raise ValueError(
            "elbo: expected an ELBO without a generator, whose state this loop's checkpoints do "
            "not keep, got one with a generator; leave it out, and seed torch instead"
        )


def check_num_data(elbo: ELBO, rows: int) -> None:
    """Raise an error if ``num_data`` is not the number of training rows.

    Rows without a label do not count, so that there may be fewer if the likelihood knows of such.
    """
    void = elbo.likelihood.known(torch.zeros(1, dtype=torch.long)) is not None
    if elbo.num_data != rows and not (void and elbo.num_data < rows):
        raise ValueError(
            f"elbo.num_data: expected {rows}, the rows of the training data, got {elbo.num_data}; "
            f"assign elbo.num_data = {rows}, and give the KL another weight on purpose by "
            f"kl_weight"
        )


def progress(elbo: ELBO) -> dict[str, Tensor]:
    """Return the parts of the last loss, ``nll`` and ``kl``, and the learned rates."""
    return {"nll": elbo.nll, "kl": elbo.kl} | rates(elbo.model)


def rates(model: nn.Module) -> dict[str, Tensor]:
    """Return the mean dropout rate of every learned mask, as ``rate/`` and its layer's name."""
    return {
        f"rate/{name.removesuffix('.mask')}": module.drop.mean()
        for name, module in model.named_modules()
        if isinstance(module, Mask) and any(p.requires_grad for p in module.parameters())
    }


def mean_nll(p: Predictive, y: Tensor) -> Tensor:
    """Return −1/B Σ_b log p(y_b | x_b), over the rows that have a label."""
    losses = -p.log_prob(y)  # (B,)
    known = p.likelihood.known(y)
    if known is None:
        return losses.mean()
    rows = known.flatten(1).any(1) if known.dim() > 1 else known
    return losses[rows].mean()
