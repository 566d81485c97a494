"""Networks by the authors' protocol, for the figures of section 4.2."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, cast

from torch import nn

from dubio_studies.clark2022.digits import Loss, Method, Networks
from dubio_studies.clark2022.kl_terms.computation import COMPUTATION, by_the_authors, named_piece
from dubio_studies.clark2022.kl_terms.networks import KLVariant
from dubio_studies.framework.study import Piece, Seed

AUTHORS: Final = "authors gaussian"
"""Bayes by Backprop with the prior N(0, 1), and the KL weighted as the authors have it."""

VARIANTS: Mapping[str, KLVariant] = {
    AUTHORS: "authors",
    "authors laplace": "authors laplace",
}
"""Methods with the paper's priors, and what clark2022/kl-terms calls them."""


def network_of(networks: Networks, piece: Piece, width: int, seed: Seed) -> nn.Module:
    """The network that a piece names by method, restart and, perhaps, loss.

    Those of the authors are trained as in clark2022/kl-terms at the scale small, and are the same
    networks.
    """
    restart = cast(int, piece["restart"])
    loss = cast(Loss, piece.get("loss", "cross-entropy"))
    variant = VARIANTS.get(str(piece["method"]))
    if variant is None:
        method = cast(Method, piece["method"])
        return networks.trained(method, width, restart, seed.given, loss).network
    config = replace(
        COMPUTATION.scales["small"],
        source=networks.source,
        images=networks.images,
        test_images=networks.test_images,
    )
    own = named_piece(variant, loss, width, restart)
    return by_the_authors(config, own, seed, networks.digits()).network
