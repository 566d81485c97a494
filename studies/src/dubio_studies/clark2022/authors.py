"""Networks by the authors' protocol, for the figures of section 4.2."""

from dataclasses import replace
from typing import Final, cast

from torch import nn

from dubio_studies.clark2022.digits import Loss, Method, Networks
from dubio_studies.clark2022.kl_terms.computation import COMPUTATION, by_the_authors
from dubio_studies.framework.study import Piece, Seed

AUTHORS: Final = "authors gaussian"
"""Bayes by Backprop with the prior N(0, 1), and the KL weighted as the authors have it."""


def network_of(networks: Networks, piece: Piece, width: int, seed: Seed) -> nn.Module:
    """The network that a piece names by method, restart and, perhaps, loss.

    That of the authors is trained as in clark2022/kl-terms at the scale small, and is the same
    network.
    """
    restart = cast(int, piece["restart"])
    loss = cast(Loss, piece.get("loss", "cross-entropy"))
    if piece["method"] != AUTHORS:
        method = cast(Method, piece["method"])
        return networks.trained(method, width, restart, seed.given, loss).network
    config = replace(
        COMPUTATION.scales["small"],
        source=networks.source,
        images=networks.images,
        test_images=networks.test_images,
    )
    own: Piece = {"variant": "authors", "loss": loss, "width": width, "restart": restart}
    return by_the_authors(config, own, seed, networks.digits()).network
