"""Pruning on MNIST: ratios and shares by hand, the same noise throughout, rules that fail."""

import math

import pytest
import torch
from torch import nn

import dubio
from dubio.layers.bayesian import bayesian_layers
from dubio_studies.clark2022.digits import SMOKE, NetworksByWidth
from dubio_studies.clark2022.figure_20_21.claims import ALIKE, CLAIMS, CLEAR
from dubio_studies.clark2022.figure_20_21.computation import (
    HIGHEST,
    LOWEST,
    SHARES,
    kept_rows,
    pieces,
    ratio_rows,
    run,
)
from dubio_studies.clark2022.reading import read
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Seed
from verdicts import said

SEED = Seed(own=1, common=2, given=0)
TINY = NetworksByWidth(**SMOKE, widths=(8,))


def test_ratios_are_in_decibels_and_add_up() -> None:
    network = nn.Sequential(dubio.BayesLinear(2, 1, deviation=0.1), dubio.BayesLinear(1, 1))
    first = bayesian_layers(network)["0"]
    with torch.no_grad():
        first.layer.weight.copy_(torch.tensor([[1.05, -0.0105]]))  # 10.2 and −9.8 dB
        first.layer.bias.zero_()  # −∞
    rows = Rows(list(ratio_rows(network)))
    own = rows.where(metric="ratios", layer=1)
    assert {r["decibel"]: r["value"] for r in own if r["value"]} == {
        10: 0.2, -10: 0.2, LOWEST: 0.2,
    }  # fmt: skip
    assert len(own) == HIGHEST - LOWEST
    assert sum(rows.where(metric="ratios").values()) == pytest.approx(1)
    median = rows.value(metric="median ratio", layer=1)
    assert median == pytest.approx(10 * math.log10(0.105), abs=1e-4)


def test_kept_shares_are_by_layer_with_biases() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(dubio.BayesLinear(9, 4), nn.ReLU(), dubio.BayesLinear(4, 2))
    rows = Rows(list(kept_rows(dubio.prune(network, 0.6), 0.6)))
    assert rows.values("layer") == [1, 2]
    left = sum(share * size for share, size in zip(rows.values(), (40, 10), strict=True))
    assert left == pytest.approx(20)


def test_a_network_loses_its_weights() -> None:
    methods = ["authors gaussian", "mixture", "cold mixture", "gaussian", "cold gaussian"]
    assert [p["method"] for p in pieces(TINY)] == methods
    piece = pieces(TINY)[3]
    rows = Rows(list(run(TINY, piece, SEED)))
    network = TINY.trained("gaussian", 8, 1, SEED.given).network
    digits = TINY.digits()
    mean = read(network, digits.test, "draws", TINY.draws, SEED).mean
    wrong = float((mean.argmax(-1) != digits.test_labels).double().mean())
    assert rows.value(metric="wrong", reading="draws", share=0.0) == pytest.approx(wrong)
    for reading in ("draws", "pass"):
        errors = rows.where(metric="wrong", reading=reading).values()
        costs = rows.where(metric="cost", reading=reading)
        assert costs.values() == pytest.approx([error - errors[0] for error in errors])
        assert costs[0]["error"] == 0
    assert rows.where(metric="kept", layer=1).values("share") == list(SHARES)
    again = Rows(list(run(TINY, piece, SEED)))
    assert again.comparable() == rows.comparable()


def made_up(
    cost: float = 0.002,
    other: float = 0.002,
    cold: float = 0.002,
    output: float = 0.9,
    cold_output: float = 0.9,
) -> Rows:
    rows = []
    for method, lost, top in (
        ("gaussian", cost, output),
        ("mixture", other, output),
        ("cold gaussian", cold, cold_output),
        ("cold mixture", cold, cold_output),
    ):
        row = {"method": method, "width": 400, "restart": 1}
        for share in ALIKE:
            fields = {"metric": "cost", "reading": "draws", "share": share}
            rows.append({**row, **fields, "value": lost, "error": 0.001})
        for layer, kept in ((1, 0.1), (2, 0.2), (3, top)):
            rows.append({**row, "metric": "median ratio", "layer": layer, "value": kept})
            rows += [
                {**row, "metric": "kept", "share": share, "layer": layer, "value": kept}
                for share in CLEAR
            ]
    return Rows(rows)


@pytest.mark.parametrize(
    ("claim", "change"),
    [(0, {"cost": 0.0031}), (1, {"other": 0.0031}), (2, {"cost": -0.0011}), (3, {"output": 0.1})],
)
def test_rules_hold_and_fail(claim: int, change: dict[str, float]) -> None:
    assert said(CLAIMS[claim].judge(made_up())) == "agrees"
    assert said(CLAIMS[claim].judge(made_up(**change))) == "fails"


@pytest.mark.parametrize("claim", range(4))
def test_cold_networks_are_shown_and_not_judged(claim: int) -> None:
    found = CLAIMS[claim].judge(made_up(cold=0.5, cold_output=0.0))
    assert said(found) == "agrees"
    assert "cold Bayes, Gaussian prior" in found.ours
    assert "cold Bayes, mixture prior" in found.ours


@pytest.mark.parametrize("claim", [0, 1])
def test_the_finding_says_for_which_networks_pruning_is_cheap(claim: int) -> None:
    parts = CLAIMS[claim].judge(made_up(other=0.0031, cold=0.0029)).ours.split("; ")
    assert [part.endswith("(holds)") for part in parts] == [True, False, True, True]
    assert parts[1] == "Bayes, mixture prior, 400 units +0.31 ± 0.10 (fails)"
