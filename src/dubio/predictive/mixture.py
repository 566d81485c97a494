"""The equal mixture of several predictions of the same rows: an ensemble."""

from collections.abc import Sequence

import torch

from dubio.predictive.predictive import Predictive, StoredDraws
from dubio.predictive.settings import is_same_likelihood


def mixture(parts: Sequence[Predictive]) -> Predictive:
    """Return the equal mixture 1/M sum_m q_m(y | x) (Lakshminarayanan et al. 2017).

    Draws of the first part come first. A part of one draw repeats it, if others have more. Where
    likelihoods differ, their noise joins the outputs, if it can.
    """
    likelihoods = [part.likelihood for part in parts]
    draws = [part.draws for part in parts]  # each (S or 1, B, …)
    if not all(is_same_likelihood(likelihoods[0], other) for other in likelihoods):
        pairs = [own.with_noise(each) for own, each in zip(likelihoods, draws, strict=True)]
        joint = [own for own, _ in pairs]
        if not all(is_same_likelihood(joint[0], other) for other in joint):
            raise ValueError(
                f"likelihood: expected one for all members, or Gaussians that differ in their "
                f"precisions only, got {likelihoods}; give all members the same kind"
            )
        likelihoods, draws = joint, [each for _, each in pairs]
    shapes = [tuple(each.shape[1:]) for each in draws]
    for member, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(
                f"model: expected members with outputs of one shape, got {shapes[0]} of member 0 "
                f"and {shape} of member {member}; pass select= with a function that picks what "
                f"they have in common"
            )
    most = max(map(len, draws))
    joined = torch.cat([each.expand(most, *each.shape[1:]) for each in draws])  # (M·S, B, …)
    return Predictive(likelihoods[0], StoredDraws(joined))
