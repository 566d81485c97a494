"""The study and the data set that CONTRIBUTING starts from, as a newcomer would add them."""

from pathlib import Path

import pytest
import torch

from dubio import cli
from dubio.data import DataError, inventory
from dubio_studies import catalogue
from dubio_studies.catalogue import Entry
from newcomer import coins, toy_data

ID = "gal2016/coins"


@pytest.fixture(autouse=True)
def _in_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry(ID, coins.CARD, "newcomer.coins")
    monkeypatch.setattr(catalogue, "ENTRIES", [*catalogue.ENTRIES, entry])


@pytest.mark.parametrize(("scale", "verdict"), [("smoke", "undecided"), ("paper", "holds")])
def test_a_study(
    scale: str, verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", ID, "--scale", scale, "--output", str(tmp_path / "rows")]) == 0
    words = ["report", ID, "--rows", str(tmp_path / "rows"), "--output", str(tmp_path)]
    assert cli.main(words) == 0
    page = (tmp_path / "gal2016-coins.html").read_text(encoding="utf-8")
    assert f'class="claim {verdict}"' in page
    assert page.count("<svg") == 2
    assert cli.main(["run", ID, "--sizes", "0"]) == 2
    assert "sizes: expected at least 1, got 0" in capsys.readouterr().err


def test_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUBIO_DATA", str(tmp_path))
    monkeypatch.setitem(inventory.DATASETS, "coins", toy_data.COINS)
    held = {holding.name: holding for holding in inventory.available()}
    assert held["coins"].status == "missing"
    with pytest.raises(DataError, match="write HTHHTTH"):
        toy_data.coins()
    file = tmp_path / "coins" / "throws.txt"
    file.parent.mkdir()
    file.write_text("HTHHTTH\n")
    throws = toy_data.coins()
    assert throws.heads.equal(torch.tensor([True, False, True, True, False, False, True]))
    assert str(file) in throws.source
    file.write_text("HTHHTTT\n")
    with pytest.raises(DataError, match="throws"):
        toy_data.coins()
