"""UCI studies: data of splits, the authors' loss as an ELBO, choices and verdicts."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import dubio
from dubio.data import DataError, uci
from dubio.report.exhibits import Table
from dubio_studies.framework.claims import Finding
from dubio_studies.framework.rows import Row, Rows
from dubio_studies.framework.store import read_rows
from dubio_studies.gal2016.table_1 import computation
from dubio_studies.gal2016.table_1.computation import (
    CONSTANTS,
    DROPS,
    LONG_TABLES,
    MOST_CHOSEN,
    Config,
    _equivalent,
    by_long_training,
    members,
    pieces,
)
from dubio_studies.gal2016.table_1.ledger import printed_numbers
from dubio_studies.gal2016.table_1.page import (
    PAGE,
    beats_others,
    clean_is_as_good,
    is_capped,
    reproduces_dropout,
)
from dubio_studies.gal2016.table_1.published import LOG_LIKELIHOOD, RMSE
from dubio_studies.gal2017.tables_3_4.computation import COMPUTATION as CONCRETE
from dubio_studies.gal2017.tables_3_4.computation import Penalised, SplitCandidate, objective
from dubio_studies.uci.splits import Splits, tuned_precisions, with_precisions
from dubio_studies.uci.tables import TABLES
from dubio_studies.uci.values import Value
from verdicts import said

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def yacht() -> Splits:
    try:
        return Splits.of("yacht", 3)
    except DataError as error:
        pytest.skip(str(error))


def test_splits_are_standardised_by_their_training_rows(yacht: Splits) -> None:
    table = uci("yacht")
    for k, split in enumerate(table.splits[:3]):
        train, test = yacht.train[k], yacht.test[k]
        assert not set(train.tolist()) & set(test.tolist())
        torch.testing.assert_close(yacht.x[train].mean(0), torch.zeros(6), atol=1e-5, rtol=0)
        torch.testing.assert_close(yacht.x[train].std(0, correction=0), torch.ones(6))
        raw = yacht.y[test, 0].double() * yacht.scale[k] + table.target[split.train].mean()
        torch.testing.assert_close(raw, table.target[split.test], atol=1e-4, rtol=1e-5)
        assert torch.equal(torch.cat([yacht.rest[k], yacht.validation[k]]), train)


@pytest.mark.parametrize("table", ["boston", "naval", "yacht"])
def test_the_authors_loss_is_an_elbo(table: str) -> None:
    """MSE + l²(1 − p)/(2Nτ)‖W‖² is 2/(τσ²) times the ELBO's loss, up to a constant."""
    constants, scale, rows = CONSTANTS[table], torch.tensor([3.7]), 123
    splits = Splits(torch.zeros(5, 4), torch.zeros(5, 1), scale, [], [])
    drop = torch.tensor([constants.drop])
    tau = constants.precision * scale**2
    (elbo,) = members(
        table, splits, drop, _equivalent(constants.length_scale, drop, scale), tau, rows
    )
    weights = [m.weight.detach() for m in elbo.model.modules() if isinstance(m, nn.Linear)]
    assert len(weights) == 2
    squares = sum(float(w.square().sum()) for w in weights)
    penalty = (
        constants.length_scale**2 * (1 - constants.drop) / (2 * rows * constants.precision)
    ) * squares
    assert float(dubio.kl(elbo.model).detach()) * 2 / (float(tau) * rows) == pytest.approx(
        penalty, rel=1e-5
    )
    assert float(elbo.likelihood.noise_precision) == pytest.approx(float(tau))


def test_a_penalised_network_has_the_prior_of_the_elbo() -> None:
    """Without masks, Concrete's penalty at a rate near zero is that of the ensemble's networks."""
    candidate = SplitCandidate(0.5, 1e-6)
    plain = objective("ensemble", candidate, 3, 10)
    noisy = objective("mc", candidate, 3, 10)
    assert isinstance(plain, Penalised)
    with torch.no_grad():
        for ours, theirs in zip(
            (m for m in plain.modules() if isinstance(m, nn.Linear)),
            (m for m in noisy.modules() if isinstance(m, nn.Linear)),
            strict=True,
        ):
            theirs.load_state_dict(ours.state_dict())
    x, y = torch.randn(10, 3), torch.randn(10, 1)
    torch.testing.assert_close(plain(x, y), noisy(x, y), rtol=1e-4, atol=1e-4)


def test_tuned_precisions_are_optimal(yacht: Splits) -> None:
    """No precision on a fine grid is better on the validation rows."""
    network = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.3), nn.Linear(4, 1))
    rows = yacht.validation[0]
    (predictive,) = with_precisions([network], torch.ones(1)).predict(
        yacht.x, rows=rows[None], draws=400
    )
    (precision,), (density,) = tuned_precisions([predictive], yacht, [rows])
    for factor in (0.5, 0.9, 1.1, 2.0):
        (other,) = with_precisions([network], factor * precision[None]).predict(
            yacht.x, rows=rows[None], draws=400
        )
        assert float(other.log_prob(yacht.y[rows]).mean()) < float(density) + 0.02


def test_pieces_cover_all_tables_and_protocols() -> None:
    found = {(p["table"], p["protocol"]) for p in pieces(Config())}
    assert found == {
        *((table, protocol) for table in TABLES for protocol in ("paper", "grid", "clean")),
        *((table, "long grid") for table in LONG_TABLES),
        *((table, "long training") for table in MOST_CHOSEN),
    }
    assert pieces(Config(protocols=("paper",), tables=("yacht",))) == [
        {"table": "yacht", "protocol": "paper"}
    ]


def test_what_is_trained_for_longer_is_what_splits_choose_most_often() -> None:
    rows = read_rows(RESULTS / "gal2016" / "table-1" / PAGE.examined)
    assert rows is not None
    for table, chosen in MOST_CHOSEN.items():
        grid = rows.where(table=table, protocol="grid")
        drops, precisions = (grid.where(metric=m).values() for m in ("drop", "precision"))
        pairs = zip(drops, precisions, strict=True)
        counts = Counter((round(d, 4), round(p, 3)) for d, p in pairs).most_common(2)
        assert counts[0][0] == chosen
        assert counts[0][1] > 1.5 * counts[1][1]


def test_a_long_training_has_ten_times_the_epochs(
    yacht: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is the training of the newer grid with as many, and the same rate and τ."""
    monkeypatch.setitem(MOST_CHOSEN, "yacht", (0.01, 0.5))
    torch.manual_seed(0)
    found = by_long_training(Config(grid_epochs=2, draws=20), "yacht", yacht)
    torch.manual_seed(0)
    drop, precision = torch.full((3,), 0.01), torch.full((3,), 0.5)
    same = computation._published("yacht", yacht, 20, 128, drop, precision, 1e-2, 20)
    assert torch.equal(found.score.rmse, same.score.rmse)
    torch.testing.assert_close(found.precision / yacht.scale**2, precision.double())
    assert computation.grid_epochs(Config(grid_epochs=400), "protein") == 200


def made_rows(gain: float) -> Iterator[Row]:
    """Rows whose values are better than published by a gain."""
    for table in TABLES:
        for protocol in ("paper", "grid", "clean"):
            grid = CONSTANTS[table].grid
            for split in range(3):
                row = {"table": table, "protocol": protocol, "split": split}
                noise = 0.001 * (split - 1)
                rmse = RMSE[table].dropout.mean - gain + noise
                density = LOG_LIKELIHOOD[table].dropout.mean + gain + noise
                yield {**row, "metric": "rmse", "value": rmse}
                yield {**row, "metric": "log-likelihood", "value": density}
                yield {**row, "metric": "precision", "value": grid[-1]}
                yield {**row, "metric": "ceiling", "value": 0.5 * math.log(grid[-1] / 6.2832)}
                yield {**row, "metric": "drop", "value": DROPS[0]}
                yield {**row, "metric": "length scale", "value": 0.01}


@pytest.mark.parametrize(("gain", "verdicts"), [(0.0, "af"), (1.0, "bb"), (-1.0, "ff")])
def test_verdicts_follow_the_rows(gain: float, verdicts: str) -> None:
    rows = Rows(list(made_rows(gain)))
    found = [said(judge(rows)) for judge in (reproduces_dropout, clean_is_as_good)]
    assert "".join(verdict[0] for verdict in found) == verdicts
    assert said(is_capped(rows)) == "agrees"
    assert PAGE.exhibits(rows)


@pytest.mark.parametrize("judge", [reproduces_dropout, beats_others, is_capped, clean_is_as_good])
def test_a_claim_about_tables_that_were_not_run_is_not_met(judge: Callable[..., Finding]) -> None:
    rows = list(made_rows(1.0))
    assert said(judge(Rows(rows))) != "fails"
    finding = judge(Rows([row for row in rows if row["table"] != "naval"]))
    assert said(finding) == "fails"
    assert "not all was run: naval missing" in finding.ours
    assert said(judge(Rows([]))) == "fails"


def test_the_grid_bounds_nothing_where_its_largest_precision_was_not_chosen() -> None:
    rows = [
        {**row, "value": CONSTANTS[str(row["table"])].grid[1]}
        if row["metric"] == "precision"
        else row
        for row in made_rows(0.0)
    ]
    finding = is_capped(Rows(rows))
    assert said(finding) == "fails"
    assert "energy 0% of splits" in finding.ours


def test_the_grid_with_the_most_epochs_decides() -> None:
    """Rows of ten times the epochs replace those of a table in the ledger and in the claim."""
    usual = list(made_rows(-1.0))
    longer = [
        {**row, "protocol": "long grid", "value": published[str(row["table"])].grid.mean}
        for row in usual
        for metric, published in (("rmse", RMSE), ("log-likelihood", LOG_LIKELIHOOD))
        if (row["table"], row["protocol"], row["metric"]) == ("yacht", "grid", metric)
    ]
    cells = {
        cell.name: cell.outcome
        for cell in printed_numbers(lambda _: Rows(usual + longer))
        if cell.table == "authors' repository"
    }
    assert cells["Yacht hydrodynamics, grid search, RMSE"] == "holds"
    assert cells["Energy efficiency, grid search, RMSE"] == "behind"
    low = [
        {**row, "protocol": "long grid", "value": CONSTANTS["yacht"].grid[0]}
        for row in usual
        if (row["table"], row["protocol"], row["metric"]) == ("yacht", "grid", "precision")
    ]
    assert "yacht 0% of splits" in is_capped(Rows([*usual, *longer, *low, *ceilings(usual)])).ours


def test_a_long_training_stands_for_the_grid_whose_choice_it_has() -> None:
    usual = list(made_rows(0.0))
    trained = [
        {**row, "protocol": "long training"}
        | ({"value": RMSE["protein"].grid.mean} if row["metric"] == "rmse" else {})
        for row in usual
        if (row["table"], row["protocol"]) == ("protein", "grid")
    ]
    rows = Rows([*usual, *trained])
    cells = {cell.name: cell.outcome for cell in printed_numbers(lambda _: rows)}
    assert cells["Protein structure, grid search (ours shorter), RMSE"] == "holds"
    table = next(e for e in PAGE.exhibits(rows) if isinstance(e, Table) and e.title == "RMSE")
    assert [line[0] for line in table.rows if any(cell.endswith("†") for cell in line)] == [
        "Protein structure"
    ]


def ceilings(rows: list[Row]) -> list[Row]:
    return [
        {**row, "protocol": "long grid"}
        for row in rows
        if (row["table"], row["protocol"], row["metric"]) == ("yacht", "grid", "ceiling")
    ]


def test_ties_with_other_methods_are_not_losses() -> None:
    """PBP's column itself: behind nothing, ahead of nothing."""
    assert said(beats_others(Rows(list(made_rows(-1.0))))) == "fails"
    rows = [
        {**row, "value": published[str(row["table"])].pbp.mean - 0.004}
        for row in made_rows(0.0)
        for metric, published in (("rmse", RMSE), ("log-likelihood", LOG_LIKELIHOOD))
        if row["metric"] == metric
    ]
    finding = beats_others(Rows(rows))
    assert said(finding) == "agrees"
    assert "behind one of them: none" in finding.ours


def test_more_splits_than_exist_are_refused() -> None:
    for make in (Config, type(CONCRETE.scales["paper"])):
        for count in (0, 21):
            with pytest.raises(ValueError, match=f"splits: expected 1 to 20.* got {count}"):
                make(splits=count)


def test_values() -> None:
    assert Value.of([]) is None
    assert Value.of([1.0, 3.0]) == (2.0, 1.0)
    assert Value(1.0, 0.3).margin(Value(2.0, 0.4)) == pytest.approx(1.005)
