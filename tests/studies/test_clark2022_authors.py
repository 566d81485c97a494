"""Networks by the authors' protocol: those of kl-terms, in every figure of section 4.2."""

from pathlib import Path

import pytest
import torch
from torch import nn

import dubio
from dubio_studies.clark2022.authors import AUTHORS, network_of
from dubio_studies.clark2022.digits import SMOKE, Networks
from dubio_studies.clark2022.kl_terms import computation as kl_terms
from dubio_studies.clark2022.table_3.computation import COMPUTATION as TABLE_3
from dubio_studies.clark2022.table_3.computation import METHODS, PRINTED, pieces
from dubio_studies.framework.study import Piece, Seed

SEED = Seed(own=1, common=2, given=0)
TINY = Networks(**SMOKE)
AUTHORS_PIECE: Piece = {"method": AUTHORS, "restart": 1}


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DUBIO_CACHE", str(tmp_path))


def weights(network: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def test_it_is_the_network_of_kl_terms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So at the scale small: the same settings give the same network, from the cache."""
    found = network_of(TINY, AUTHORS_PIECE, 8, SEED)
    small = kl_terms.COMPUTATION.scales["small"]
    like = kl_terms.Config(
        **{
            **{name: getattr(small, name) for name in small.__dataclass_fields__},
            "source": TINY.source,
            "images": TINY.images,
            "test_images": TINY.test_images,
        }
    )
    piece: Piece = {"variant": "authors", "loss": "cross-entropy", "width": 8, "restart": 1}
    theirs = kl_terms.by_the_authors(like, piece, SEED, like.digits()).network
    assert torch.equal(weights(found), weights(theirs))
    assert len(list((tmp_path / "networks").iterdir())) == 1
    layers = [m for m in found.modules() if isinstance(m, dubio.Bayesian)]
    assert [layer.prior for layer in layers] == [dubio.priors.Gaussian(1.0)] * 3


def test_other_methods_are_those_of_table_3() -> None:
    found = network_of(TINY, {"method": "plain", "restart": 1}, 8, SEED)
    assert torch.equal(weights(found), weights(TINY.trained("plain", 8, 1, SEED.given).network))


def test_table_3_has_one_network_of_each_printed_kind_at_twice_the_width() -> None:
    small, paper = (pieces(TABLE_3.scales[scale]) for scale in ("small", "paper"))
    own = [p for p in small if p["width"] == 800]
    assert [(p["method"], p["restart"], p["loss"]) for p in own] == [
        (method, 1, "cross-entropy") for method in PRINTED
    ]
    assert {p["method"] for p in paper if p["width"] == 800} == set(METHODS)
