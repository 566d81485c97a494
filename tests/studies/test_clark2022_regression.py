"""The regression of Clark et al. 2022: its curve, numbers against other ways to them, rules."""

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional as F

import dubio
from dubio_studies.clark2022.regression.claims import (
    best_mixture,
    dropout_helps,
    faster,
    hardly_widens,
    narrower_is_better,
    widens,
    wider_and_worse,
)
from dubio_studies.clark2022.regression.computation import (
    COMPUTATION,
    MASKS,
    RegressionRun,
    masked_outputs,
    of_ensemble,
    of_masks,
    of_network,
    outputs,
    worth,
)
from dubio_studies.clark2022.regression.ledger import printed_numbers
from dubio_studies.clark2022.regression.plain import PlainLayer, plain_bayesian_network, plain_loss
from dubio_studies.clark2022.regression.problem import (
    INNER_DEVIATION,
    bayesian_network,
    curve,
    likelihood,
    observations,
    plain_network,
    regions,
)
from dubio_studies.clark2022.regression.published import EVALUATED, OBSERVED, TABLE_1, TABLE_2
from dubio_studies.clark2022.regression.reading import (
    GAUSSIAN,
    MIXTURE,
    epochs_to_converge,
    starts,
    stepped,
)
from dubio_studies.clark2022.regression.settings import (
    Config,
    gaussian,
    mixture,
    pieces,
    prior_of,
    restarts,
)
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Seed
from verdicts import said

SMOKE = COMPUTATION.scales["smoke"]


def test_noise_of_the_targets_is_not_that_inside_the_sines() -> None:
    """It is ε's deviation times the slope that the page gives, to first order."""
    x = torch.linspace(*OBSERVED, 1001, dtype=torch.float64)
    noise = torch.zeros_like(x, requires_grad=True)
    (slope,) = torch.autograd.grad(curve(x, noise).sum(), noise)
    cosines = 0.6 * torch.cos(2 * math.pi * x) + 1.2 * torch.cos(4 * math.pi * x)
    torch.testing.assert_close(slope, 1 + math.pi * cosines)
    spread = INNER_DEVIATION * slope
    assert spread.square().mean().sqrt() == pytest.approx(0.063, abs=5e-4)
    assert spread.abs().max() == pytest.approx(0.133, abs=5e-4)


def test_three_quarters_of_the_evaluation_are_extrapolation() -> None:
    x, y = observations(EVALUATED, 1000, seed=3)
    where = regions(x)
    assert (int(where["inside"].sum()), int(where["outside"].sum())) == (250, 750)
    assert (where["inside"] ^ where["outside"]).all()
    assert torch.equal(y, observations(EVALUATED, 1000, seed=3)[1])
    assert not torch.equal(y, observations(EVALUATED, 1000, seed=4)[1])


def test_start_of_the_paper() -> None:
    network = bayesian_network(50, dubio.priors.Gaussian(1.0))
    layers = [layer for layer in network if isinstance(layer, dubio.Bayesian)]
    assert [tuple(layer.means()["weight"].shape) for layer in layers] == [
        (50, 1),
        (50, 50),
        (1, 50),
    ]
    for layer in layers:
        for mean, deviation in zip(
            layer.means().values(), layer.deviations().values(), strict=True
        ):
            assert mean.abs().max() <= 0.2
            assert deviation.min() >= F.softplus(torch.tensor(-5.0))
            assert deviation.max() <= F.softplus(torch.tensor(-4.0))
        assert float(layer.rho.detach().max() - layer.rho.detach().min()) > 0.5
        assert float(layer.layer.weight.detach().abs().max()) > 0.15


def test_pieces_are_the_settings_of_the_paper() -> None:
    networks = [
        piece for piece in pieces(COMPUTATION.scales["paper"]) if piece["part"] == "network"
    ]
    constant = [p for p in networks if p["schedule"] == "constant"]
    plain = [p for p in constant if p["sampler"] == "weights"]
    of_table_1 = [p for p in plain if p["spike"] is None and p["noise"] == 0.1]
    assert {p["sigma"] for p in of_table_1} == set(TABLE_1)
    assert {(p["sigma"], p["spike"]) for p in plain if p["spike"]} == set(TABLE_2)
    assert {p["noise"] for p in plain} == {0.01, 0.1, 1.0}
    assert sum(p["sampler"] == "local" for p in constant) == 2
    assert prior_of(gaussian(2, 0.1)) == dubio.priors.Gaussian(math.exp(-2))
    assert prior_of(mixture(1, 6)) == dubio.priors.ScaleMixture(0.5, math.exp(-1), math.exp(-6))


def test_authors_learning_rates_for_every_number_of_the_tables() -> None:
    """Once or three times, the restarts for 500 epochs each."""
    config = COMPUTATION.scales["paper"]
    networks = [p for p in pieces(config) if p.get("schedule") == "stepped"]
    counts = Counter((p["sigma"], p["spike"]) for p in networks if p["sampler"] == "weights")
    assert {sigma: counts[sigma, None] for sigma in TABLE_1} == dict.fromkeys(TABLE_1, 3)
    mixtures = {place: counts[place] for place in TABLE_2}
    assert mixtures == {place: 3 if place == (1, 6) else 1 for place in TABLE_2}
    assert sum(p["sampler"] == "local" for p in networks) == 3
    assert {p["epochs"] for p in restarts(config)} == {500}
    assert len([p for p in networks if "epochs" not in p]) == len(TABLE_1)
    names = [tuple(sorted(p.items(), key=str)) for p in pieces(config)]
    assert len(set(names)) == len(names)


def test_restarts_end_after_two_periods() -> None:
    config = dataclasses.replace(SMOKE, epochs=12, watch_every=1)
    piece = next(p for p in restarts(config) if p["sampler"] == "weights")
    rows = Rows(list(of_network(config, piece, Seed(own=1, common=2, given=0))))
    assert rows.where(metric="training").values("epoch") == [1, 2, 3, 4, 5, 6]


def test_last_minibatch_is_what_the_paper_calls_elbo() -> None:
    """Σ_b −log p(y_b | x_b, w) + KL/(2^M − 1), with everything from torch.distributions."""
    training = RegressionRun(SMOKE, gaussian(1, 0.1), Seed(own=1, common=2, given=0))
    x, y = training.data[0][:8], training.data[1][:8]
    for _ in range(SMOKE.batches):
        training.elbo(x, y)
    found = training.watch()
    divergence = torch.zeros(())
    for layer in training.network:
        if isinstance(layer, dubio.Bayesian):
            for mean, deviation in zip(
                layer.means().values(), layer.deviations().values(), strict=True
            ):
                divergence += torch.distributions.kl_divergence(
                    torch.distributions.Normal(mean, deviation),
                    torch.distributions.Normal(0.0, math.exp(-1)),
                ).sum()
    rows = SMOKE.points // SMOKE.batches
    expected = rows * training.elbo.nll + divergence / (2**SMOKE.batches - 1)
    assert found == pytest.approx(float(expected.detach()), rel=1e-4)


def test_worth_by_scipy() -> None:
    x = torch.linspace(*EVALUATED, 41).unsqueeze(1)
    generator = torch.Generator().manual_seed(5)
    functions = torch.randn(50, 41, 1, generator=generator, dtype=torch.float64)
    y = torch.randn(41, 1, generator=generator, dtype=torch.float64)
    rows = Rows(list(worth(x, y, functions, likelihood(0.5))))
    target, draws = y.squeeze(1).numpy(), functions.squeeze(2).numpy()
    low, high = stats.scoreatpercentile(draws, [5, 95], axis=0)
    density = stats.norm(draws, 0.5).pdf(target).mean(0)
    for region, where in regions(x).items():
        at, of = where.numpy(), rows.where(region=region)
        assert of.value(metric="lppd") == pytest.approx(np.log(density[at]).mean())
        assert of.value(metric="width") == pytest.approx((high - low)[at].mean())
        error = np.sqrt(((draws.mean(0) - target)[at] ** 2).mean())
        assert of.value(metric="rmse") == pytest.approx(error)
        share = ((low <= target) & (target <= high))[at].mean()
        assert of.value(metric="coverage") == pytest.approx(share)


def test_ensembles_predict_without_dropout() -> None:
    x, _ = observations(EVALUATED, 21, seed=1)
    networks = [plain_network(8, 0.5) for _ in range(3)]
    found = outputs(networks, x)
    assert found.shape == (3, 21, 1)
    assert torch.equal(found, outputs(networks, x))
    rest = [network[0:2] + network[3:5] + network[6:] for network in networks]
    torch.testing.assert_close(found, torch.stack([part(x) for part in rest]))


def test_members_of_an_ensemble_differ() -> None:
    config = dataclasses.replace(SMOKE, members=4)
    rows = Rows(list(of_ensemble(config, 0.5, Seed(own=1, common=2, given=0))))
    bands = rows.where(metric="band")
    assert len({bands[0][f"draw{number}"] for number in range(1, 5)}) == 4
    assert "draw5" not in bands[0]
    for row in bands:
        draws = [float(row[f"draw{number}"]) for number in range(1, 5)]
        assert float(row["value"]) == pytest.approx(np.mean(draws), abs=1e-5)
        assert min(draws) <= row["p5"] <= row["p95"] <= max(draws)


def test_ensembles_predict_with_dropout() -> None:
    """Functions of all members, each with its own units left out."""
    x, _ = observations(EVALUATED, 21, seed=1)
    networks = [plain_network(8, 0.5) for _ in range(3)]
    found = masked_outputs(networks, x)
    assert found.shape == (3 * MASKS, 21, 1)
    many = [dubio.predict(net, x, draws=4000, shared=True).mean for net in networks]
    wanted, spread = torch.stack(many).mean(0), found.std(0) / math.sqrt(MASKS)
    assert ((found.mean(0) - wanted).abs() < 4 * spread).all()
    rows = Rows(list(of_masks(SMOKE, 0.5, Seed(own=1, common=2, given=0))))
    widths = {row["dropout"]: row["value"] for row in rows.where(metric="width", region="all")}
    assert widths["off"] < widths["on"]
    assert set(rows.distinct("members")) == {SMOKE.members}


def test_plain_layers_have_the_moments_of_bayesian_ones() -> None:
    x = torch.linspace(-1.0, 1.0, 5).unsqueeze(1)
    layer = PlainLayer(1, 3, "weights", exact=True)
    local = PlainLayer(1, 3, "local", exact=True)
    local.load_state_dict(layer.state_dict())
    deviation = F.softplus(layer.rho)
    mean = x * layer.mean[:, 0] + layer.mean[:, 1]
    spread = (x.square() * deviation[:, 0].square() + deviation[:, 1].square()).sqrt()
    for each in (layer, local):
        with torch.no_grad():
            outputs = torch.stack([each(x) for _ in range(4000)])
        torch.testing.assert_close(outputs.mean(0), mean, atol=2e-3, rtol=0.0)
        torch.testing.assert_close(outputs.std(0), spread, atol=0.0, rtol=0.06)


@torch.no_grad()
def test_plain_objective_is_that_of_the_other_runs() -> None:
    """With deviations of almost zero, and the two kinds of divergence on average."""
    x, y = observations(OBSERVED, 16, seed=4)
    network = plain_bayesian_network(6, "weights", exact=True)
    for layer in network:
        if isinstance(layer, PlainLayer):
            layer.rho.data.fill_(-20.0)
    same = bayesian_network(6, dubio.priors.Gaussian(math.exp(-1)))
    for ours, plain in zip(same[::2], network[::2], strict=True):
        assert isinstance(ours, dubio.Bayesian)
        assert isinstance(plain, PlainLayer)
        ours.rho.data.fill_(-20.0)
        ours.layer.weight.data.copy_(plain.mean[:, :-1])
        ours.layer.bias.data.copy_(plain.mean[:, -1])
    elbo = dubio.ELBO(same, likelihood(0.1), len(x))
    found = plain_loss(network, x, y, draws=2, kl_weight=1.0)
    assert float(found) == pytest.approx(len(x) * float(elbo(x, y)), rel=1e-4)
    drawn = plain_bayesian_network(6, "weights", exact=False)
    drawn.load_state_dict(network.state_dict())
    estimate = plain_loss(drawn, x, y, draws=200, kl_weight=1.0)
    assert float(estimate) == pytest.approx(float(found), rel=0.01)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"points": 1001}, "points: expected a multiple of batches, 8, got 1001"),
        ({"epochs": 5}, "epochs: expected at least 6"),
        ({"draws": 3}, "draws, batch_draws, watch_draws: expected at least 10"),
        ({"noises": (0.2,)}, "noises: expected positive numbers with 0.1 among them"),
        ({"sigmas": (2,)}, "sigmas, spikes: expected 0 and 1, and 6"),
        ({"drop": 1.0}, "drop: expected a rate in"),
        ({"decay_every": 2}, "decay_every: expected at least 3, got 2"),
        ({"hidden": 0}, "hidden: expected at least 1, got 0"),
        ({"members": 1}, "members: expected at least 2, got 1"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Config(**settings)


def made_up(
    widths: Mapping[str, tuple[float, float]], lppd: Mapping[tuple[int, int | None], float]
) -> Rows:
    """Rows of widths inside and outside by kind of network, and of lppd by prior."""
    places: dict[str, dict[str, Any]] = {
        "plain": {"part": "ensemble", "drop": 0.0},
        "dropout": {"part": "ensemble", "drop": 0.5},
        "gaussian": {**GAUSSIAN},
        "mixture": {**MIXTURE},
    }
    rows: list[dict[str, Any]] = []
    for name, pair in widths.items():
        for region, value in zip(("inside", "outside"), pair, strict=True):
            rows.append({**places[name], "metric": "width", "region": region, "value": value})
    for (sigma, spike), value in lppd.items():
        prior = {**GAUSSIAN, "sigma": sigma} if spike is None else {**MIXTURE, "sigma": sigma}
        for region in ("all", "inside"):
            row = {**prior, "spike": spike, "metric": "lppd", "region": region, "value": value}
            rows += [row, {**stepped(row), "restart": 1}]
    return Rows(rows)


WIDTHS = {
    "plain": (0.01, 0.1),
    "dropout": (0.05, 0.2),
    "gaussian": (0.1, 0.9),
    "mixture": (0.1, 0.4),
}


@pytest.mark.parametrize(
    ("changed", "verdicts"),
    [
        ({}, ("agrees", "agrees")),
        ({"plain": (0.01, 0.6)}, ("agrees", "fails")),
        ({"mixture": (0.3, 0.4)}, ("fails", "agrees")),
    ],
)
def test_rules_of_spread_can_fail(
    changed: Mapping[str, tuple[float, float]], verdicts: tuple[str, str]
) -> None:
    rows = made_up({**WIDTHS, **changed}, {})
    assert (said(widens(rows)), said(hardly_widens(rows))) == verdicts


def test_the_papers_own_tables_pass_and_others_fail() -> None:
    published = {**{(s, None): v for s, v in TABLE_1.items()}, **TABLE_2}
    rows = made_up({}, published)
    assert said(narrower_is_better(rows)) == "agrees"
    assert said(best_mixture(rows)) == "agrees"
    turned = made_up({}, {place: -value for place, value in published.items()})
    assert said(narrower_is_better(turned)) == "fails"
    assert said(best_mixture(turned)) == "fails"


def test_starts_have_a_mean_and_an_error() -> None:
    base = {**stepped(GAUSSIAN), "metric": "lppd", "region": "all"}
    rows = Rows([{**base, "value": -9.0}, *({**base, "restart": n, "value": n} for n in (1, 2))])
    assert starts(rows, "lppd", "all", GAUSSIAN) == (-2.0, pytest.approx(math.sqrt(37 / 3)))
    with pytest.raises(LookupError, match="expected some"):
        starts(rows, "lppd", "inside", GAUSSIAN)
    cell = printed_numbers(lambda study: rows)[1]
    assert (cell.authors, cell.ours) == (starts(rows, "lppd", "all", GAUSSIAN), None)


@pytest.mark.parametrize(
    ("lppd", "width", "verdict"),
    [(-2.0, 0.5, "agrees"), (-0.5, 0.5, "fails"), (-2.0, 0.3, "fails")],
)
def test_rule_of_local_noise_can_fail(lppd: float, width: float, verdict: str) -> None:
    rows = []
    for sampler, values in (("weights", (-1.0, 0.4)), ("local", (lppd, width))):
        which = {**GAUSSIAN, "sampler": sampler}
        for place, value in zip((("lppd", "all"), ("width", "outside")), values, strict=True):
            row = {**which, "metric": place[0], "region": place[1], "value": value}
            rows += [row, stepped(row)]
    assert said(wider_and_worse(Rows(rows))) == verdict


def test_rule_of_dropout_is_about_prediction_without_it() -> None:
    rows = []
    for drop, width in ((0.0, 0.6), (0.5, 0.4)):
        for metric in ("width", "coverage"):
            row = {"part": "ensemble", "drop": drop, "metric": metric, "value": width}
            rows.append({**row, "region": "outside"})
    masks = {"part": "masks", "members": 8, "metric": "width", "region": "outside"}
    rows += [{**masks, "dropout": way, "value": v} for way, v in (("off", 0.3), ("on", 0.9))]
    finding = dropout_helps(Rows(rows))
    assert said(finding) == "fails"
    assert "0.30 if it is off for prediction and 0.90 if it is on" in finding.ours


def test_rule_of_time_is_about_our_code() -> None:
    ours = {"weights": 2.0, "local": 1.0}
    rows = [{"part": "time", "sampler": s, "value": 10, "seconds": v} for s, v in ours.items()]
    kinds = (("weights", "draws"), ("weights", "exact"), ("local", "exact"))
    for units in (4, 400):
        for at, (sampler, kl) in enumerate(kinds, start=1):
            row = {"part": "plain torch", "sampler": sampler, "kl": kl, "units": units}
            rows += [{**row, "value": 10, "cpu_seconds": at * s} for s in (1.0, 2.0)]
    finding = faster(Rows(rows))
    assert said(finding) == "agrees"
    assert "100 ms by weights with the KL of eq. 9, 200 with" in finding.ours


def test_epochs_to_converge() -> None:
    values = [100.0, 50.0, 1.5, 0.5, 0.0]
    rows = Rows([{"epoch": 10 * i, "value": v} for i, v in enumerate(values)])
    assert epochs_to_converge(rows) == 30
