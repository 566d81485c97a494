"""Clark et al. 2022, section 4.2: numbers against scikit-learn and scipy, shared networks."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.metrics import log_loss
from torch import nn

import dubio
from dubio.report.exhibits import Plot
from dubio.training.history import Epoch, History
from dubio_studies.catalogue import find
from dubio_studies.clark2022 import digits
from dubio_studies.clark2022.digits import SMOKE, Method, Networks
from dubio_studies.clark2022.figure_16_17.computation import (
    drawn_weights,
    histogram,
    measures,
    weights,
)
from dubio_studies.clark2022.figure_16_17.page import CLAIMS as WEIGHTS
from dubio_studies.clark2022.figure_18 import computation as figure_18
from dubio_studies.clark2022.figure_18.page import CLAIMS as CURVES
from dubio_studies.clark2022.figure_18.page import largest_rise, settled
from dubio_studies.clark2022.table_3.computation import Config, pieces, run
from dubio_studies.clark2022.table_3.page import CLAIMS as ERRORS
from dubio_studies.clark2022.table_3.page import READING
from dubio_studies.clark2022.table_3.published import AUTHORS
from dubio_studies.framework.claims import Claim
from dubio_studies.framework.options import explanations
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Computation, Seed
from dubio_studies.mnist.images import Digits
from dubio_studies.mnist.training import DigitTraining, TrainedDigits
from verdicts import said

SEED = Seed(own=1, common=2, given=0)
TINY = Config(**SMOKE, widths=(16,), double_widths=(16,))
COLD: tuple[Method, ...] = ("cold gaussian", "cold mixture")
SLOW: Method = "slow gaussian"


def rows_of(computation: Computation[Any]) -> Rows:
    config, run = computation.scales["smoke"], computation.run
    return Rows([{**p, **row} for p in computation.pieces(config) for row in run(config, p, SEED)])


def given(monkeypatch: pytest.MonkeyPatch, network: nn.Module) -> None:
    """Studies find this network instead of a trained one."""
    monkeypatch.setattr(Networks, "of", lambda *_: TrainedDigits(network.eval(), History()))


def verdicts(claims: tuple[Claim, ...], rows: Rows) -> list[str]:
    return [said(claim.judge(rows)) for claim in claims]


def test_inherited_settings_are_explained() -> None:
    @dataclass(frozen=True)
    class Other(Networks):
        """Settings.

        Attributes:
            extra: One more.
            draws: Said anew.
        """

        extra: int = 1

    helps = explanations(Other)
    assert helps["extra"] == "One more"
    assert helps["draws"] == "Said anew"
    assert helps["images"] == explanations(Networks)["images"] == "Training images"


def test_studies_at_smoke_scale_share_their_networks(tmp_path: Path) -> None:
    for name, known in (("table-3", 18), ("figure-16-17", 21), ("figure-18", 21)):
        study = find(f"clark2022/{name}").load()
        rows = rows_of(study.computation)
        assert len(list((tmp_path / "cache" / "networks").iterdir())) == known
        for claim in study.page.claims:
            assert claim.judge(rows).ours
        for exhibit in study.page.exhibits(rows):
            if isinstance(exhibit, Plot):
                assert exhibit.draw(exhibit.wide)
                assert exhibit.draw(exhibit.narrow)
            else:
                assert {len(line) for line in exhibit.rows} == {len(exhibit.columns)}
        assert (
            rows_of(study.computation).comparable() == rows.comparable()
        )  # now all from the cache


def test_pieces_are_all_networks_of_the_table() -> None:
    found = pieces(Config(widths=(400, 800), double_widths=(400,), restarts=2))
    assert [p["width"] for p in found] == sorted((p["width"] for p in found), reverse=True)
    named = {(p["loss"], p["width"], p["method"], p["restart"]) for p in found}
    assert len(named) == len(found)
    assert named == {
        *product(("cross-entropy",), (1200,), AUTHORS, (1,)),
        *product(("cross-entropy",), (400, 800), [*AUTHORS, SLOW, *COLD], (1, 2)),
        *product(("double softmax",), (400,), ("gaussian", "dropout", "plain"), (1,)),
    }


@pytest.mark.parametrize("prior", ["gaussian", "mixture"])
def test_cold_networks_differ_in_the_weight_of_the_kl_alone(
    monkeypatch: pytest.MonkeyPatch, prior: Method
) -> None:
    kept: list[tuple[dubio.ELBO, dict[str, Any], DigitTraining]] = []

    def watching(
        make: Callable[[], dubio.ELBO], identity: dict[str, Any], _: Digits, training: DigitTraining
    ) -> TrainedDigits:
        torch.manual_seed(0)
        kept.append((make(), identity, training))
        return TrainedDigits(nn.Identity(), History())

    monkeypatch.setattr(digits, "trained", watching)
    for method in (prior, COLD[prior == "mixture"]):
        TINY.trained(method, 16, 1, 0)
    (warm, identity, training), (cold, cold_identity, cold_training) = kept
    assert training == cold_training
    changed = {name for name in identity if identity[name] != cold_identity[name]}
    assert changed == {"method", "kl weight"}
    assert (identity["kl weight"], cold_identity["kl weight"]) == (1, Networks.cold)
    shown = TINY.digits()
    penalties = []
    for objective in (warm, cold):
        torch.manual_seed(1)  # the same noise, too
        loss = objective(shown.test, shown.test_labels)
        penalties.append(float(loss.detach() - objective.nll) * objective.num_data)
    assert penalties[0] == pytest.approx(float(warm.kl), rel=1e-4)
    assert penalties[1] == pytest.approx(Networks.cold * float(warm.kl), rel=1e-3)


def test_slow_networks_have_the_papers_prior_and_deviations_that_hardly_move() -> None:
    assert repr(TINY.prior("slow gaussian")) == "Gaussian(1)"
    moved = {}
    for method, start in (("gaussian", TINY.deviation), ("slow gaussian", TINY.slow_deviation)):
        begin = layers_of(TINY.network(cast(Method, method), 16))
        ended = layers_of(TINY.trained(cast(Method, method), 16, 1, 0).network)
        assert len(begin) == len(ended) == 3
        for layer in begin:
            deviations = layer.deviations()["weight"].detach()
            assert float(deviations.max()) == pytest.approx(start, rel=1e-4)
        moved[method] = max(
            float((after.rho - before.rho).detach().abs().max())
            for before, after in zip(begin, ended, strict=True)
        )
    # Adam's steps are as long as the learning rate, more or less
    assert moved["slow gaussian"] == pytest.approx(TINY.slow * moved["gaussian"], rel=0.5)


def layers_of(network: nn.Module) -> list[dubio.Bayesian]:
    return [module for module in network.modules() if isinstance(module, dubio.Bayesian)]


def test_one_pass_is_scored_as_by_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    network = TINY.network("dropout", 16).eval()
    shown = TINY.digits()
    with torch.no_grad():
        outputs = network(shown.test).double().softmax(-1)
    labels = shown.test_labels
    piece = {"method": "dropout", "width": 16, "restart": 1}
    for loss, trained in (
        ("cross-entropy", network),
        ("double softmax", nn.Sequential(*network, nn.Softmax(-1))),
    ):
        given(monkeypatch, trained)
        rows = Rows(list(run(TINY, {**piece, "loss": loss}, SEED)))
        assert rows.distinct("reading") == ["draws", "pass"]
        error = float((outputs.argmax(-1) != labels).double().mean())
        assert rows.value(reading="pass", metric="error") == pytest.approx(error)
        nll = log_loss(labels, outputs, labels=range(10))
        assert rows.value(reading="pass", metric="nll") == pytest.approx(nll, rel=1e-5)
        drawn = rows.value(reading="draws", metric="nll")
        assert drawn != pytest.approx(nll, rel=1e-3)


def test_draws_without_spread_are_the_mean_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    network = TINY.network("gaussian", 16)
    piece = {"method": "gaussian", "width": 16, "restart": 1, "loss": "cross-entropy"}

    def difference() -> float:
        given(monkeypatch, network)
        nll = Rows(list(run(TINY, piece, SEED))).where(metric="nll").values()
        return abs(nll[0] - nll[1])

    assert difference() > 1e-4
    for layer in network.modules():
        if isinstance(layer, dubio.Bayesian):
            layer.rho.data.fill_(-30.0)
    assert difference() < 1e-6


def test_all_weights_are_taken_and_drawn_from_the_posterior() -> None:
    torch.manual_seed(2)
    network = TINY.network("gaussian", 16).requires_grad_(False)
    layers = [layer for layer in network.modules() if isinstance(layer, dubio.Bayesian)]
    for sigma, layer in enumerate(layers, start=1):
        layer.rho.data.fill_(float(np.log(np.expm1(sigma))))
    means = weights(network)
    counts = [784 * 16, 16 * 16, 16 * 10]
    assert len(means) == sum(counts)  # biases are none
    noise = drawn_weights(network, torch.Generator().manual_seed(3)) - means
    deviations = torch.repeat_interleave(torch.tensor([1.0, 2.0, 3.0]), torch.tensor(counts))
    for part in (noise / deviations).split(counts):
        # the seed is fixed; for another one a false alarm has the probability 1e-6
        assert stats.kstest(part.numpy(), "norm").pvalue > 1e-6


def test_measures_are_those_of_scipy() -> None:
    torch.manual_seed(4)
    values = torch.distributions.Laplace(0.1, 0.5).sample((5000,))
    rows = Rows(list(measures(values)))
    exact = values.double().numpy()
    assert rows.value(metric="deviation") == pytest.approx(exact.std())
    assert rows.value(metric="kurtosis") == pytest.approx(stats.kurtosis(exact))
    low, high = np.quantile(exact, (0.05, 0.95))
    assert rows.value(metric="width") == pytest.approx(high - low)


def test_histograms_are_those_of_numpy() -> None:
    torch.manual_seed(5)
    values = torch.randn(4000)
    rows = Rows(list(histogram(values)))
    left = rows.values("left")
    step = left[1] - left[0]
    assert left[40] < 0 < left[41]
    assert left[0] == pytest.approx(-left[-1] - step)
    counts, _ = np.histogram(values.numpy(), [*left, left[-1] + step])
    assert rows.values() == pytest.approx(list(counts / (4000 * step)), abs=1.01 / (4000 * step))
    assert sum(rows.values()) * step == pytest.approx(0.999, abs=1e-3)


def test_curves_are_what_training_has_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = History(Epoch(e, 0.0, None, None, error, 0.0, 0.0) for e, error in ((1, 0.3), (2, 0.1)))
    monkeypatch.setattr(Networks, "of", lambda *_: TrainedDigits(nn.Identity(), kept))
    learning = figure_18.COMPUTATION
    config = learning.scales["smoke"]
    rows = Rows(list(learning.run(config, learning.pieces(config)[0], SEED)))
    assert [(r["epoch"], r["value"]) for r in rows] == [(1, 0.3), (2, 0.1)]


def test_numbers_of_a_curve() -> None:
    assert settled([5.0, 2.0, 1.05, 1.2, 1.0, 1.0]) == 5
    assert settled([5.0, 2.0, 1.05, 0.9, 1.0]) == 3
    assert settled([1.0]) == 1
    assert largest_rise([1.0, 9.0, 3.0, 2.0, 2.5, 2.0]) == 0.5
    assert largest_rise([3.0, 2.0, 1.0]) == 0.0


def test_rules_of_table_3() -> None:
    def rows(**changes: float) -> Rows:
        return Rows(
            [
                {
                    "method": method, "width": width, "loss": loss, "restart": 1,
                    "reading": reading, "metric": "error",
                    "value": (value + changes.get(method, 0.0)) / 100
                    if loss == "cross-entropy" and reading == READING[method] else 0.9,
                }
                for method in READING
                for width, value in AUTHORS[method.split()[-1]].items()
                for loss in ("cross-entropy", "double softmax")
                for reading in ("pass", "draws")
            ]
        )  # fmt: skip

    same = ["agrees"] * 3

    def published(made: Rows) -> list[str]:
        return verdicts(ERRORS, made)

    judged = [*AUTHORS, SLOW]  # the paper has no cold networks
    nearly = dict.fromkeys(READING, -1e-09)
    place = {method: k for k, method in enumerate(judged, start=3)}
    assert published(rows(**nearly)) == [*same, *["beyond"] * 5]
    slightly = published(rows(**nearly | {"plain": 0.05}))
    assert slightly.pop(place["plain"]) == "agrees"
    assert slightly == [*same, *["beyond"] * 4]
    assert published(rows(**nearly | {"dropout": 0.1}))[place["dropout"]] == "agrees"
    assert published(rows(**nearly | {"dropout": 0.11}))[place["dropout"]] == "fails"
    worse = published(rows(**nearly | {"plain": -0.5}))
    assert worse[0] == "fails"
    assert worse[place["plain"]] == "beyond"
    assert published(rows(**nearly | {"dropout": -0.2}))[1] == "fails"
    assert published(rows(**nearly | {"mixture": -0.12}))[2] == "fails"
    assert "cold Bayes, mixture prior 1.42 (400" in ERRORS[2].judge(rows(**nearly)).ours
    for change in (-0.5, 0.5):  # variants change no other verdict
        found = published(rows(**nearly | dict.fromkeys((SLOW, *COLD), change)))
        assert found.pop(place[SLOW]) == ("beyond" if change < 0 else "fails")
        assert found == [*same, *["beyond"] * 4]
    elsewhere = Rows([{**row, "width": row["width"] + 1} for row in rows(**nearly)])
    assert published(elsewhere) == [*same, *["fails"] * 5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"images": 60_001},
            "images: expected at most 60,000, the training images",
        ),
        ({"test_images": 1}, "test_images: expected at least 2, got 1"),
        ({"batch_size": 0}, "batch_size: expected at least 1, got 0"),
        ({"widths": (400, 0)}, r"widths: expected one or more, each at least 1, got \(400, 0\)"),
        ({"widths": ()}, "widths: expected one or more"),
        ({"double_widths": (-3,)}, "double_widths: expected one or more, each at least 1"),
        ({"learning_rate": float("nan")}, "learning_rate: expected a positive number, got nan"),
        ({"prior_sigma": 0.0}, "prior_sigma: expected a positive number, got 0"),
        ({"drop_units": 1.0}, "drop_units: expected a rate in \\(0, 1\\), got 1"),
    ],
)
def test_settings_that_cannot_be_computed_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Config(**change)


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, set()),
        ({"plain": 0.31}, {0}),
        ({"dropout": 0.31}, {0}),
        ({"mixture": 0.31}, {1}),
        ({"authors laplace": 0.46}, {2}),
        ({"authors laplace": 0.19}, {2}),
        ({"laplace": 0.9}, set()),  # shown, not judged
    ],
)
def test_rules_of_figures_16_and_17(change: dict[str, float], failing: set[int]) -> None:
    spreads = {
        "plain": 0.1, "dropout": 0.2, "gaussian": 0.3, "mixture": 0.1, "laplace": 0.25,
        "slow gaussian": 0.1, "cold gaussian": 0.15, "cold mixture": 0.35,
        "authors gaussian": 0.3, "authors laplace": 0.25,
    }  # fmt: skip
    made = []
    for method, value in (spreads | change).items():
        row = {"method": method, "restart": 1, "metric": "width"}
        bayesian = method not in ("plain", "dropout")
        for width, which in product((400, 800), ("drawn", "means") if bayesian else ("trained",)):
            shown = 0.01 if which == "means" else value if width == 800 else spreads[method]
            made.append({**row, "width": width, "weights": which, "value": shown})
    found = [claim.judge(Rows(made)) for claim in WEIGHTS]
    assert {k for k, finding in enumerate(found) if said(finding) == "fails"} == failing
    for finding in found[:2]:
        assert "cold Bayes, Gaussian prior 0.150" in finding.ours


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, set()),
        ({"plain": [5.0, 5.0, 5.0, 1.9]}, {0}),
        ({"plain": [1.9, 1.3, 1.3, 1.3]}, {1}),
        ({"gaussian": [5.0, 3.0, 1.4, 1.35]}, set()),
        ({"gaussian": [5.0, 3.0, 1.7, 1.5]}, {2}),
    ],
)
def test_rules_of_figure_18(change: dict[str, list[float]], failing: set[int]) -> None:
    curves = {
        "plain": [5.0, 1.9, 1.9, 1.9],
        "dropout": [5.0, 3.0, 1.4, 1.3],
        "gaussian": [5.0, 3.0, 2.0, 1.3],
        "slow gaussian": [9.0, 9.0, 9.0, 9.0],
        "cold gaussian": [9.0, 9.0, 9.0, 9.0],
    }
    made = [
        {
            "method": method, "width": width, "restart": 1, "metric": "error",
            "epoch": epoch, "value": error / 100,
        }
        for width in (400, 800)
        for method, curve in (curves | (change if width == 800 else {})).items()
        for epoch, error in enumerate(curve, start=1)
    ]  # fmt: skip
    found = [claim.judge(Rows(made)) for claim in CURVES]
    assert {k for k, finding in enumerate(found) if said(finding) == "fails"} == failing
    assert all("cold Bayes, Gaussian prior" in finding.ours for finding in found)
