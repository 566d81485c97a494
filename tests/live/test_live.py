"""The live page: what it is given, against dubio; and how it is opened.

The page itself is tested in `web/`, by `make live-test`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dubio
from dubio import cli
from dubio.masks import Bernoulli
from dubio.noise.numbers import Numbers
from dubio_studies.gal2016.figure_6.computation import COMPUTATION
from dubio_studies.live import digits, fixtures, foragers, page
from dubio_studies.live.graphs import export_small, in_half_precision
from dubio_studies.uncertainty.digits_vs_shift.computation import Config

WEB = Path(__file__).parents[2] / "web"
MODELS = sorted((WEB / "models").glob("*.onnx"))


def stored(name: str) -> Any:
    return json.loads((WEB / "fixtures" / f"{name}.json").read_text())


def drawn(cards: list[dict[str, Any]], seed: int, draws: int, rows: int) -> dict[str, Any]:
    """The noise of a file by the names of its inputs, as the page makes it."""
    numbers, like = Numbers(seed, range(draws), shared=False), torch.empty(0)
    made = {}
    for site, card in enumerate(cards):
        shape = torch.Size([rows, card["shape"][2]])
        if card["distribution"] == "bernoulli":
            made[card["name"]] = numbers.bernoulli((site,), card["keep"], shape, like).numpy()
        else:
            draw = numbers.normal if card["distribution"] == "normal" else numbers.uniform
            made[card["name"]] = draw((site, 0), shape, like).numpy()
    return made


@pytest.mark.parametrize("file", MODELS, ids=lambda file: file.stem)
def test_a_stored_network_gives_the_draws_that_dubio_has_written(file: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    fixture = stored(file.stem)
    session = onnxruntime.InferenceSession(file)
    card = json.loads(session.get_modelmeta().custom_metadata_map["dubio"])
    x = np.array(fixture["x"], dtype=np.float32) / np.float32(255)
    noise = drawn(card["noise"], int(fixture["seed"]), fixture["draws"], len(x))
    for draw, wanted in enumerate(fixture["apart"]):
        given = {name: numbers[draw : draw + 1] for name, numbers in noise.items()}
        (found,) = session.run(["y"], {"x": x, **given})[0]
        np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_there_is_a_file_for_every_network_and_it_is_small() -> None:
    assert {file.stem for file in MODELS} == {
        *digits.METHODS,
        "forager-newborn",
        "forager-grown",
    }
    assert all(file.stat().st_size < 1e6 for file in MODELS)


def test_fixtures_are_what_dubio_computes_today() -> None:
    noise = stored("noise")
    for name, numbers in fixtures.noise_fixture().items():
        if name == "normal":
            np.testing.assert_allclose(numbers, noise[name], atol=2e-6)
        else:
            assert json.loads(json.dumps(numbers)) == noise[name]
    now, before = fixtures.curve_fixture(), stored("curve")
    for method, known in before["methods"].items():
        np.testing.assert_allclose(now["methods"][method]["losses"], known["losses"], rtol=1e-9)
        np.testing.assert_allclose(now["methods"][method]["shared"], known["shared"], atol=1e-9)


def test_a_small_file_holds_the_network_exactly(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    import onnxruntime

    torch.manual_seed(0)
    plain = torch.nn.Linear(40, 30)
    net = in_half_precision(torch.nn.Sequential(dubio.Masked(plain, Bernoulli(drop=0.3))))
    x = torch.rand(3, 40)
    file = tmp_path / "small.onnx"
    exported = export_small(net, x, file)
    assert dubio.export(net, x, tmp_path / "large.onnx").file.stat().st_size > (
        file.stat().st_size + 2 * 40 * 30 - 500
    )
    session = onnxruntime.InferenceSession(file)
    (found,) = session.run(["y"], {"x": x.numpy(), **exported.noise(3, seed=5)})
    same = dubio.predict(net, x, draws=1, generator=5).draws
    np.testing.assert_allclose(found, same, atol=1e-6)


def test_readers_are_trained_and_get_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "ERROR_RATE", 0.99)
    settings = Config(source="digits", images=400, test_images=400, width=8, epochs=2)
    made = list(digits.readers(settings))
    assert [reader.method for reader in made] == list(digits.METHODS)
    for reader in made:
        assert 0 < reader.answered <= 1
        assert len(reader.drop) == (0 if reader.method == "bayes" else 3)
        for weights in reader.network.parameters():
            torch.testing.assert_close(weights, weights.half().float(), rtol=0, atol=0)


def test_an_agent_is_the_best_of_some() -> None:
    pytest.importorskip("gymnasium")
    settings = COMPUTATION.scales["smoke"]
    for agent in (foragers.newborn(settings), foragers.grown(settings)):
        assert agent.drop == (0.1, 0.1)
        assert (agent.reward is None) == (agent.ticks == 0)
        assert agent.network(torch.zeros(1, 27)).shape == (1, 5)


def test_the_page_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(page.webbrowser, "open", opened.append)
    built = tmp_path / "index.html"
    built.write_text("<!doctype html>")
    monkeypatch.setattr(page, "BUILT", built)
    assert cli.main(["demo", "--live"]) == 0
    assert opened == [built.as_uri()]
    assert built.as_uri() in capsys.readouterr().out


def test_a_page_that_is_missing_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(page, "BUILT", tmp_path / "index.html")
    assert cli.main(["demo", "--live"]) == 1
    assert "make live" in capsys.readouterr().err


def test_other_options_of_the_demo_do_not_go_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--live", "--epochs", "3"]) == 2
    assert "--epochs" in capsys.readouterr().err
